package main

import "github.com/sandboxd/sandboxd/policy"

// hint ends an error about an unknown word: with the known word nearest to it, else with where the list is.
func hint(typed string, known []string, list string) string {
	if nearest := policy.Nearest(typed, known); nearest != "" {
		return "; did you mean " + nearest + "?"
	}
	return "; " + list + " lists what there is"
}
