package execd

import (
	"fmt"
	"net/url"
	"strings"

	"github.com/sandboxd/sandboxd/policy"
)

// parseQuery is url.ParseQuery with its error in words.
func parseQuery(raw string) (url.Values, error) {
	values, err := url.ParseQuery(raw)
	if err != nil {
		return nil, fmt.Errorf("the query can't be read: %w", err)
	}
	return values, nil
}

// nearest names the parameter that was probably meant.
func nearest(name string, known []string) string {
	if near := policy.Nearest(name, known); near != "" {
		return near
	}
	if len(known) == 0 {
		return "none: this path has no parameters"
	}
	return strings.Join(known, ", ")
}
