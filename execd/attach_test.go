package execd

import (
	"os"
	"strings"
	"testing"
)

// TestAttachConfig: each field that can't be, or means nothing beside others, is an error that names it.
func TestAttachConfig(t *testing.T) {
	good := Attach{Socket: "/run/sandboxd/launcher.sock", UID: 4711, ProxyPort: 15001, Writable: []string{"/data"}, FenceUIDs: []int{5}, FencePorts: []int{8080}}
	c := DefaultConfig("/")
	if c.Attach = good; c.Validate() != nil {
		t.Errorf("%v", c.Validate())
	}
	for field, change := range map[string]func(*Config){
		"without Socket":       func(c *Config) { c.Attach.Socket = "" },
		"Attach.Socket":        func(c *Config) { c.Attach.Socket = "launcher.sock" },
		"Attach.UID":           func(c *Config) { c.Attach.UID = 0 },
		"Attach.ProxyPort":     func(c *Config) { c.Attach.ProxyPort = -1 },
		"Attach: port 70000":   func(c *Config) { c.Attach.ProxyPort = 70000 },
		"Attach: port 0":       func(c *Config) { c.Attach.FencePorts = []int{0} },
		"Attach.Writable: \"/": func(c *Config) { c.Attach.Writable = []string{"/"} },
		"Attach.Writable: \"d": func(c *Config) { c.Attach.Writable = []string{"data"} },
		"Attach.FenceUIDs":     func(c *Config) { c.Attach.FenceUIDs = []int{4711} },
		"Prewarm":              func(c *Config) { c.Prewarm = []Prewarm{{Size: 1}} },
		"Show":                 func(c *Config) { c.Show = []string{"/opt"} },
	} {
		c := DefaultConfig("/")
		c.Attach = good
		change(&c)
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%s: %v", field, err)
		}
	}
	if _, err := (Attach{Socket: "/s", UID: os.Geteuid()}).podFence(true, false); err == nil {
		t.Error("a fence by one uid for both")
	}
}
