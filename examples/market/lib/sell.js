/**
 * Changes the owner of a commodity to the buyer, and emits an event.
 * @param {org.example.market.Sell} sell the sale
 * @transaction
 */
async function sell(sell) {
  sell.commodity.owner = sell.buyer
  const commodities = await getAssetRegistry('org.example.market.Commodity')
  await commodities.update(sell.commodity)
  const sold = getFactory().newEvent('org.example.market', 'Sold')
  sold.commodity = sell.commodity
  emit(sold)
}
