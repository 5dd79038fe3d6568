//go:build sabotage

package runner

import (
	"os"
	"slices"
)

// sabotageVariable names the step that the worker leaves out. Only a build with the tag sabotage knows it.
const sabotageVariable = "SANDBOXD_SABOTAGE"

func sabotage(steps []Step) []Step {
	name := os.Getenv(sabotageVariable)
	if name == "" {
		return steps
	}
	return slices.DeleteFunc(steps, func(s Step) bool { return s.Name == name })
}

func sabotageEnv() []string {
	return []string{sabotageVariable + "=" + os.Getenv(sabotageVariable)}
}
