//go:build ignore

// Default_generate writes default.json: moby's default profile, as the module that go.mod names has it.
package main

import (
	"encoding/json"
	"log"
	"os"

	moby "github.com/moby/profiles/seccomp"
)

func main() {
	log.SetFlags(0)
	data, err := json.MarshalIndent(moby.DefaultProfile(), "", "\t")
	if err != nil {
		log.Fatal(err)
	}
	if err := os.WriteFile("default.json", append(data, '\n'), 0o644); err != nil {
		log.Fatal(err)
	}
}
