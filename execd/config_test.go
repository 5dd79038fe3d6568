package execd

import (
	"strings"
	"testing"
	"time"
)

func TestDefaultConfigIsValid(t *testing.T) {
	if err := DefaultConfig("/var/lib/sandboxd").Validate(); err != nil {
		t.Error(err)
	}
}

func TestValidateNamesTheField(t *testing.T) {
	for field, change := range map[string]func(*Config){
		"StateDir":        func(c *Config) { c.StateDir = "relative" },
		"AuditDir":        func(c *Config) { c.AuditDir = "./x" },
		"AuditSlots":      func(c *Config) { c.AuditSlots = 0 },
		"PolicyDir":       func(c *Config) { c.PolicyDir = "x" },
		"ProfileDir":      func(c *Config) { c.ProfileDir = "x" },
		"RunnerPath":      func(c *Config) { c.RunnerPath = "x" },
		"ClaimFile":       func(c *Config) { c.ClaimFile = "" },
		"Show":            func(c *Config) { c.Show = []string{"usr"} },
		"Pool":            func(c *Config) { c.Pool = -1 },
		"MaxRunning":      func(c *Config) { c.MaxRunning = 0 },
		"MaxWaiting":      func(c *Config) { c.MaxWaiting = -1 },
		"MaxSandboxes":    func(c *Config) { c.MaxSandboxes = -1 },
		"MaxWorkers":      func(c *Config) { c.MaxWorkers = 0 },
		"TmpBytes":        func(c *Config) { c.TmpBytes = 0 },
		"WorkBytes":       func(c *Config) { c.WorkBytes = 0 },
		"FirstUID":        func(c *Config) { c.FirstUID = 0 },
		"UIDs":            func(c *Config) { c.UIDs = 1 },
		"BodyBytes":       func(c *Config) { c.BodyBytes = 0 },
		"AuditFileBytes":  func(c *Config) { c.AuditFileBytes = 1 },
		"QueueTimeout":    func(c *Config) { c.QueueTimeout = 0 },
		"DecisionTimeout": func(c *Config) { c.DecisionTimeout = 0 },
		"GateTimeout":     func(c *Config) { c.GateTimeout = 2 * time.Hour },
		"SandboxTimeout":  func(c *Config) { c.SandboxTimeout = -1 },
		"RecordTimeout":   func(c *Config) { c.RecordTimeout = 0 },
		"KillTimeout":     func(c *Config) { c.KillTimeout = 0 },
		"HeaderTimeout":   func(c *Config) { c.HeaderTimeout = 0 },
		"BodyTimeout":     func(c *Config) { c.BodyTimeout = 0 },
		"IdleTimeout":     func(c *Config) { c.IdleTimeout = 0 },
		"WriteTimeout":    func(c *Config) { c.WriteTimeout = 0 },
		"StopTimeout":     func(c *Config) { c.StopTimeout = 0 },
		"Logger":          func(c *Config) { c.Logger = nil },
	} {
		c := DefaultConfig("/var/lib/sandboxd")
		change(&c)
		err := c.Validate()
		if err == nil || strings.Count(err.Error(), "config: ") != 1 || !strings.Contains(err.Error(), "config: "+field+": ") {
			t.Errorf("%s: %v", field, err)
		}
		if s, err := New(t.Context(), c); err == nil {
			s.Close(t.Context())
			t.Errorf("%s: New started", field)
		}
	}
}
