# daicho in a container: the ledger on port 4126, its data in the volume /data, as the user `node`.
#
#   docker build -t daicho .
#   docker run -d --name daicho -p 127.0.0.1:4126:4126 -v daicho:/data \
#     -e BASIC_USERNAME=keeper -e BASIC_PASSWORD=… daicho
#
# How to run, back up and upgrade it: docs/how-to/.

FROM node:24.21.0-bookworm-slim AS build
WORKDIR /build
COPY package.json package-lock.json ./
# The only install script is that of the package `node`, which this image is already.
RUN npm ci --ignore-scripts --no-audit --no-fund
COPY tsconfig.json tsconfig.build.json ./
COPY scripts scripts
COPY src src
# Behind the image's own Node in the path: the package of that name has not been set up.
RUN PATH="$PATH:/build/node_modules/.bin" node scripts/build.ts \
  && npm prune --omit=dev --ignore-scripts --no-audit --no-fund

FROM node:24.21.0-bookworm-slim
ENV NODE_ENV=production HOST=0.0.0.0 SYSTEM_FOLDER=/data
ENV MALLOC_MMAP_THRESHOLD_=131072
WORKDIR /opt/daicho
COPY --from=build /build/package.json ./
COPY --from=build /build/node_modules node_modules
COPY --from=build /build/dist dist
RUN install --directory --owner=node --group=node --mode=0700 /data
USER node
VOLUME /data
EXPOSE 4126
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=30s --timeout=5s --start-period=30s --retries=3 \
  CMD ["node", "-e", "fetch(`http://127.0.0.1:${process.env.PORT || 4126}/readyz`).then(({ ok }) => process.exit(ok ? 0 : 1), () => process.exit(1))"]
# Flags, and variables MALLOC_…, as in scripts/node-flags.mjs.
ENTRYPOINT ["node", "--disable-warning=ExperimentalWarning", "--max-semi-space-size=8", "dist/cli/main.js"]
CMD ["serve", "--only", "ledger"]
