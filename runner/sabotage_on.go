//go:build sabotage

package runner

import (
	"os"
	"slices"
)

// sabotageVariable names the step that the worker leaves out. Only a build with the tag sabotage knows it.
const sabotageVariable = "SANDBOXD_SABOTAGE"

// sabotaged says whether the worker leaves out what it does once for all its children: their own step would only find it done.
func sabotaged(name string) bool { return os.Getenv(sabotageVariable) == name }

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
