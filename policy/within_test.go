package policy

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// optional draws nil or a pointer to a value.
func optional[T any](value *rapid.Generator[T]) *rapid.Generator[*T] {
	return rapid.Custom(func(t *rapid.T) *T {
		if rapid.Bool().Draw(t, "set") {
			return new(value.Draw(t, "value"))
		}
		return nil
	})
}

// The generators draw from few values, so that two draws are often comparable.
var (
	someNames   = rapid.SampledFrom([]string{"ALL", "KILL", "CAP_KILL", "NET_RAW", "SYS_ADMIN"})
	someID      = rapid.SampledFrom([]int64{0, 1000, 1001})
	someContext = rapid.Custom(func(t *rapid.T) SecurityContext {
		flag := func(name string) *bool { return optional(rapid.Bool()).Draw(t, name) }
		context := SecurityContext{
			Privileged: flag("privileged"), AllowPrivilegeEscalation: flag("escalation"), ReadOnlyRootFilesystem: flag("readOnly"), RunAsNonRoot: flag("nonRoot"),
			RunAsUser: optional(someID).Draw(t, "user"), RunAsGroup: optional(someID).Draw(t, "group"),
			SupplementalGroups: rapid.SliceOfN(someID, 0, 3).Draw(t, "groups"),
			ProcMount:          optional(rapid.SampledFrom([]string{"Default", "Unmasked"})).Draw(t, "procMount"),
		}
		if rapid.Bool().Draw(t, "capabilities") {
			context.Capabilities = &Capabilities{Add: rapid.SliceOfN(someNames, 0, 3).Draw(t, "add"), Drop: rapid.SliceOfN(someNames, 0, 3).Draw(t, "drop")}
		}
		switch kind := rapid.SampledFrom([]string{"", SeccompRuntimeDefault, SeccompLocalhost, SeccompUnconfined}).Draw(t, "seccomp"); kind {
		case "":
		case SeccompLocalhost:
			context.SeccompProfile = &SeccompProfile{Type: kind, LocalhostProfile: new(rapid.SampledFrom([]string{"a", "b", ProfileStrict, ProfileGPU}).Draw(t, "profile"))}
		default:
			context.SeccompProfile = &SeccompProfile{Type: kind}
		}
		return context
	})
)

// edit is a change of one field.
type edit struct {
	field string
	make  func(*SecurityContext)
}

// tightenings lists every single change of a defaulted context that only tightens; loosenings every one that loosens.
func tightenings(c SecurityContext) []edit {
	edits := []edit{}
	for _, flag := range []struct {
		field string
		at    func(*SecurityContext) **bool
		tight bool
	}{
		{"privileged", func(c *SecurityContext) **bool { return &c.Privileged }, false},
		{"allowPrivilegeEscalation", func(c *SecurityContext) **bool { return &c.AllowPrivilegeEscalation }, false},
		{"readOnlyRootFilesystem", func(c *SecurityContext) **bool { return &c.ReadOnlyRootFilesystem }, true},
		{"runAsNonRoot", func(c *SecurityContext) **bool { return &c.RunAsNonRoot }, true},
	} {
		if **flag.at(&c) != flag.tight {
			edits = append(edits, edit{flag.field, func(c *SecurityContext) { *flag.at(c) = new(flag.tight) }})
		}
	}
	for _, id := range []struct {
		field string
		at    func(*SecurityContext) **int64
	}{
		{"runAsUser", func(c *SecurityContext) **int64 { return &c.RunAsUser }},
		{"runAsGroup", func(c *SecurityContext) **int64 { return &c.RunAsGroup }},
	} {
		value := *id.at(&c)
		if value != nil && *value == 0 {
			edits = append(edits, edit{id.field, func(c *SecurityContext) { *id.at(c) = nil }})
		}
		if value == nil || *value == 0 {
			edits = append(edits, edit{id.field, func(c *SecurityContext) { *id.at(c) = new(int64(4242)) }})
		}
	}
	for i := range c.SupplementalGroups {
		edits = append(edits, edit{"supplementalGroups", func(c *SecurityContext) {
			c.SupplementalGroups = append(append([]int64{}, c.SupplementalGroups[:i]...), c.SupplementalGroups[i+1:]...)
		}})
	}
	for i := range c.Capabilities.Add {
		edits = append(edits, edit{"capabilities.add", func(c *SecurityContext) {
			c.Capabilities.Add = append(append([]string{}, c.Capabilities.Add[:i]...), c.Capabilities.Add[i+1:]...)
		}})
	}
	if len(c.Capabilities.Add) == 1 && c.Capabilities.Add[0] == CapabilityAll {
		edits = append(edits, edit{"capabilities.add", func(c *SecurityContext) { c.Capabilities.Add = []string{"CHOWN"} }})
	}
	if c.Capabilities.Drop[0] != CapabilityAll {
		edits = append(edits,
			edit{"capabilities.drop", func(c *SecurityContext) { c.Capabilities.Drop = append(c.Capabilities.Drop, "CHOWN") }},
			edit{"capabilities.drop", func(c *SecurityContext) { c.Capabilities.Drop = []string{CapabilityAll} }})
	}
	if c.SeccompProfile.Type == SeccompUnconfined {
		edits = append(edits,
			edit{"seccompProfile", func(c *SecurityContext) { c.SeccompProfile = &SeccompProfile{Type: SeccompRuntimeDefault} }},
			edit{"seccompProfile", func(c *SecurityContext) {
				c.SeccompProfile = &SeccompProfile{Type: SeccompLocalhost, LocalhostProfile: new("x")}
			}})
	}
	builtin := func(name string) {
		edits = append(edits, edit{"seccompProfile", func(c *SecurityContext) {
			c.SeccompProfile = &SeccompProfile{Type: SeccompLocalhost, LocalhostProfile: new(name)}
		}})
	}
	switch c.SeccompProfile.String() {
	case "RuntimeDefault":
		builtin(ProfileStrict)
	case "Localhost(sandboxd/gpu)":
		builtin(ProfileStrict)
		builtin(ProfileDefault)
	case "Unconfined":
		builtin(ProfileGPU)
	}
	if *c.ProcMount == ProcMountUnmasked {
		edits = append(edits, edit{"procMount", func(c *SecurityContext) { c.ProcMount = new(ProcMountDefault) }})
	}
	return edits
}

// sidesteps changes a field to what can't be compared: neither looser nor tighter, so refused both ways.
func sidesteps(c SecurityContext) []edit {
	edits := []edit{}
	if c.RunAsUser != nil && *c.RunAsUser != 0 {
		edits = append(edits, edit{"runAsUser", func(c *SecurityContext) { c.RunAsUser = new(*c.RunAsUser + 1) }})
	}
	if c.RunAsGroup != nil && *c.RunAsGroup != 0 {
		edits = append(edits, edit{"runAsGroup", func(c *SecurityContext) { c.RunAsGroup = new(*c.RunAsGroup + 1) }})
	}
	switch c.SeccompProfile.Type {
	case SeccompRuntimeDefault:
		edits = append(edits, edit{"seccompProfile", func(c *SecurityContext) {
			c.SeccompProfile = &SeccompProfile{Type: SeccompLocalhost, LocalhostProfile: new("x")}
		}})
	case SeccompLocalhost:
		edits = append(edits, edit{"seccompProfile", func(c *SecurityContext) {
			c.SeccompProfile = &SeccompProfile{Type: SeccompLocalhost, LocalhostProfile: new("other")}
		}})
	}
	return edits
}

// loosenings is every single-field step towards less.
func loosenings(c SecurityContext) []edit {
	edits := []edit{}
	set := func(field string, make func(*SecurityContext)) { edits = append(edits, edit{field, make}) }
	if !*c.Privileged {
		set("privileged", func(c *SecurityContext) { c.Privileged = new(true) })
	}
	if !*c.AllowPrivilegeEscalation {
		set("allowPrivilegeEscalation", func(c *SecurityContext) { c.AllowPrivilegeEscalation = new(true) })
	}
	if *c.ReadOnlyRootFilesystem {
		set("readOnlyRootFilesystem", func(c *SecurityContext) { c.ReadOnlyRootFilesystem = new(false) })
	}
	if *c.RunAsNonRoot {
		set("runAsNonRoot", func(c *SecurityContext) { c.RunAsNonRoot = new(false) })
	}
	if c.RunAsUser == nil || *c.RunAsUser != 0 {
		set("runAsUser", func(c *SecurityContext) { c.RunAsUser = new(int64(0)) })
	}
	if c.RunAsUser != nil && *c.RunAsUser != 0 {
		set("runAsUser", func(c *SecurityContext) { c.RunAsUser = nil })
	}
	if c.RunAsGroup == nil || *c.RunAsGroup != 0 {
		set("runAsGroup", func(c *SecurityContext) { c.RunAsGroup = new(int64(0)) })
	}
	if c.RunAsGroup != nil && *c.RunAsGroup != 0 {
		set("runAsGroup", func(c *SecurityContext) { c.RunAsGroup = nil })
	}
	set("supplementalGroups", func(c *SecurityContext) { c.SupplementalGroups = append(c.SupplementalGroups, 7) })
	if len(c.Capabilities.Add) == 0 || c.Capabilities.Add[0] != CapabilityAll {
		set("capabilities.add", func(c *SecurityContext) { c.Capabilities.Add = append(c.Capabilities.Add, "BPF") })
		set("capabilities.add", func(c *SecurityContext) { c.Capabilities.Add = []string{CapabilityAll} })
		set("capabilities.add", func(c *SecurityContext) { c.Capabilities.Add = CapabilityNames() })
	}
	if c.Capabilities.Drop[0] == CapabilityAll {
		set("capabilities.drop", func(c *SecurityContext) { c.Capabilities.Drop = CapabilityNames() })
	} else {
		set("capabilities.drop", func(c *SecurityContext) { c.Capabilities.Drop = []string{"BPF"} })
	}
	if c.SeccompProfile.Type != SeccompUnconfined {
		set("seccompProfile", func(c *SecurityContext) { c.SeccompProfile = &SeccompProfile{Type: SeccompUnconfined} })
	}
	switch c.SeccompProfile.String() {
	case "RuntimeDefault", "Localhost(sandboxd/strict)", "Localhost(a)":
		for _, name := range []string{ProfileJIT, ProfileGPU, BuiltinProfiles + "other"} {
			set("seccompProfile", func(c *SecurityContext) {
				c.SeccompProfile = &SeccompProfile{Type: SeccompLocalhost, LocalhostProfile: new(name)}
			})
		}
	}
	if *c.ProcMount == ProcMountDefault {
		set("procMount", func(c *SecurityContext) { c.ProcMount = new(ProcMountUnmasked) })
	}
	return edits
}

func faultField(err error) string {
	var fault *FieldError
	if !errors.As(err, &fault) {
		return ""
	}
	return strings.TrimPrefix(fault.Field, "securityContext.")
}

func TestWithinRefusesEverySingleLoosening(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		requested := someContext.Draw(t, "requested")
		defaulted := requested.Defaulted()
		for _, loosening := range append(loosenings(defaulted), sidesteps(defaulted)...) {
			effective := requested.Defaulted()
			loosening.make(&effective)
			if got := faultField(Within(effective, requested)); got != loosening.field {
				t.Fatalf("%s loosened to %s: the fault is at %q", loosening.field, Canonical(effective), got)
			}
		}
	})
}

func TestWithinTakesEverySingleTightening(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		requested := someContext.Draw(t, "requested")
		for _, tightening := range tightenings(requested.Defaulted()) {
			effective := requested.Defaulted()
			tightening.make(&effective)
			if err := Within(effective, requested); err != nil {
				t.Fatalf("%s tightened to %s: %v", tightening.field, Canonical(effective), err)
			}
			if err := Within(requested, effective); faultField(err) != tightening.field {
				t.Fatalf("%s tightened to %s: the way back gives %v", tightening.field, Canonical(effective), err)
			}
		}
	})
}

func TestWithinIsAPartialOrder(t *testing.T) {
	below := func(t *rapid.T, c SecurityContext, name string) SecurityContext {
		for range rapid.IntRange(0, 4).Draw(t, name) {
			if edits := tightenings(c.Defaulted()); len(edits) > 0 {
				c = c.Defaulted()
				edits[rapid.IntRange(0, len(edits)-1).Draw(t, name)].make(&c)
			}
		}
		return c
	}
	rapid.Check(t, func(t *rapid.T) {
		a := someContext.Draw(t, "a")
		if err := Within(a, a); err != nil {
			t.Fatalf("not reflexive: %v", err)
		}
		// Half of the draws are related by construction; independent ones seldom are.
		b, c := someContext.Draw(t, "b"), someContext.Draw(t, "c")
		if rapid.Bool().Draw(t, "related") {
			b = below(t, a, "b")
			c = below(t, b, "c")
			if err := Within(c, a); err != nil {
				t.Fatalf("%s is a chain of tightenings of %s: %v", Canonical(c), Canonical(a), err)
			}
		}
		if Within(a, b) == nil && Within(b, c) == nil && Within(a, c) != nil {
			t.Fatalf("not transitive: %s, %s, %s", Canonical(a), Canonical(b), Canonical(c))
		}
		if Within(a, b) == nil && Within(b, a) == nil && !bytes.Equal(Canonical(a), Canonical(b)) {
			t.Fatalf("not antisymmetric: %s, %s", Canonical(a), Canonical(b))
		}
	})
}

// What isn't a context is within none, even one that asks for nothing tighter.
func TestWithinRefusesWhatIsNoContext(t *testing.T) {
	loosest := SecurityContext{RunAsUser: new(int64(0)), RunAsGroup: new(int64(0)), SeccompProfile: &SeccompProfile{Type: SeccompUnconfined}}
	for want, effective := range map[string]SecurityContext{
		"runAsUser":                       {RunAsUser: new(int64(-1))},
		"runAsGroup":                      {RunAsGroup: new(int64(1 << 32))},
		"seccompProfile.type":             {SeccompProfile: &SeccompProfile{Type: "None"}},
		"seccompProfile.localhostProfile": {SeccompProfile: &SeccompProfile{Type: SeccompLocalhost, LocalhostProfile: new("../x")}},
		"procMount":                       {ProcMount: new("")},
		"capabilities.drop[0]":            {Capabilities: &Capabilities{Drop: []string{"EVERYTHING"}}},
	} {
		if got := faultField(Within(effective, loosest)); got != want {
			t.Errorf("%s: the fault is at %q", want, got)
		}
	}
}

var someLimits = rapid.Custom(func(t *rapid.T) Limits {
	var limits Limits
	for _, row := range limitTable {
		row.set(&limits, rapid.SampledFrom([]float64{0, row.least, row.least * 2, row.most / 2, row.most}).Draw(t, row.name))
	}
	return limits
})

func TestWithinLimits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b, c := someLimits.Draw(t, "a"), someLimits.Draw(t, "b"), someLimits.Draw(t, "c")
		if err := WithinLimits(a, a); err != nil {
			t.Fatalf("not reflexive: %v", err)
		}
		if WithinLimits(a, b) == nil && WithinLimits(b, c) == nil && WithinLimits(a, c) != nil {
			t.Fatalf("not transitive: %v, %v, %v", a, b, c)
		}
		if WithinLimits(a, b) == nil && WithinLimits(b, a) == nil && !bytes.Equal(Canonical(a), Canonical(b)) {
			t.Fatalf("not antisymmetric: %v, %v", a, b)
		}
		for _, row := range limitTable {
			defaulted := a.Defaulted()
			if row.get(defaulted) == 0 {
				tighter := defaulted
				row.set(&tighter, row.most)
				if err := WithinLimits(tighter, a); err != nil {
					t.Fatalf("%s bounded: %v", row.name, err)
				}
				continue
			}
			looser, tighter := defaulted, defaulted
			row.set(&looser, row.get(defaulted)+1)
			row.set(&tighter, row.get(defaulted)/2)
			if got := WithinLimits(looser, a); got == nil || !strings.HasPrefix(got.Error(), "limits."+row.name+": ") {
				t.Fatalf("%s raised: %v", row.name, got)
			}
			if row.get(tighter) > 0 {
				if err := WithinLimits(tighter, a); err != nil {
					t.Fatalf("%s lowered: %v", row.name, err)
				}
			}
			if row.otherwise == 0 {
				row.set(&looser, 0)
				if err := WithinLimits(looser, a); err == nil || err.Error() != "limits."+row.name+": no limit in force, but "+number(row.get(defaulted))+" was asked for" {
					t.Fatalf("%s lifted: %v", row.name, err)
				}
			}
		}
	})
}

// The table has a row for every field, in the order of both structs: a field without a row would be neither checked nor compared.
func TestLimitTableIsWhole(t *testing.T) {
	var limits Limits
	for i, row := range limitTable {
		row.set(&limits, float64(i+1000))
	}
	want := `{"timeoutSeconds":1000,"outputBytes":1001,"memoryBytes":1002,"pids":1003,"cpu":1004,"cpuSeconds":1005,"openFiles":1006,"fileBytes":1007}`
	got, err := ParseLimits([]byte(want))
	if err != nil {
		t.Fatal(err)
	}
	if got != limits {
		t.Errorf("parsed %+v, want %+v", got, limits)
	}
}
