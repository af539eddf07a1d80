// Opens a checkpoint with the verifier keys of a log and of witnesses. Fails unless all these keys have signed the
// checkpoint.
// Usage: open-note <note> <log vkey> <witness vkey>...
package main

import (
	"fmt"
	"os"

	"filippo.io/torchwood"
	"golang.org/x/mod/sumdb/note"
)

func main() {
	text, err := os.ReadFile(os.Args[1])
	fail(err)
	log, err := note.NewVerifier(os.Args[2])
	fail(err)
	verifiers := []note.Verifier{log}
	for _, vkey := range os.Args[3:] {
		witness, err := torchwood.NewCosignatureVerifier(vkey)
		fail(err)
		verifiers = append(verifiers, witness)
	}
	opened, err := note.Open(text, note.VerifierList(verifiers...))
	fail(err)
	checkpoint, err := torchwood.ParseCheckpoint(opened.Text)
	fail(err)
	fmt.Printf("%s, %d blocks\n", checkpoint.Origin, checkpoint.N)
	for _, signature := range opened.Sigs {
		fmt.Printf("signed by %s %08x\n", signature.Name, signature.Hash)
	}
	if len(opened.Sigs) != len(verifiers) {
		fail(fmt.Errorf("%d of %d keys have signed", len(opened.Sigs), len(verifiers)))
	}
}

func fail(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
