// Cosigns the text of a checkpoint (stdin) with a new ML-DSA-44 key, and prints the verifier key and the signed note.
// Usage: ml-dsa <name>
package main

import (
	"crypto/mldsa"
	"fmt"
	"io"
	"os"

	"filippo.io/torchwood"
	"golang.org/x/mod/sumdb/note"
)

func main() {
	key, err := mldsa.GenerateKey(mldsa.MLDSA44())
	fail(err)
	signer, err := torchwood.NewCosignatureSigner(os.Args[1], key)
	fail(err)
	text, err := io.ReadAll(os.Stdin)
	fail(err)
	signed, err := note.Sign(&note.Note{Text: string(text)}, signer)
	fail(err)
	fmt.Printf("%s\n%s", signer.Verifier(), signed)
}

func fail(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
