package enforcer

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/policy"
)

func failed(v policy.Verdict) string {
	var text strings.Builder
	for _, row := range v.Failed() {
		fmt.Fprintf(&text, "%s: want %s, got %s\n", row.Control, row.Want, row.Got)
	}
	return text.String()
}

func TestCheckHolds(t *testing.T) {
	for name, h := range examples(t) {
		if v := Check(h.plan, h.expect, h.gate); !v.Held() {
			t.Errorf("%s at the gate:\n%s", name, failed(v))
		}
		if v := CheckStarted(h.plan, h.expect, h.started); !v.Held() {
			t.Errorf("%s started:\n%s", name, failed(v))
		}
	}
}

// The zero values hold nothing: neither a plan that was never built, nor a state that was never read, nor an expectation of nothing.
func TestCheckOfNothingDoesNotHold(t *testing.T) {
	for name, h := range examples(t) {
		for what, v := range map[string]policy.Verdict{
			"all zero":                  Check(Plan{}, Expect{}, State{}),
			"zero plan":                 Check(Plan{}, h.expect, h.gate),
			"zero expectation":          Check(h.plan, Expect{}, h.gate),
			"zero state":                Check(h.plan, h.expect, State{}),
			"all zero, started":         CheckStarted(Plan{}, Expect{}, State{}),
			"zero plan, started":        CheckStarted(Plan{}, h.expect, h.started),
			"zero expectation, started": CheckStarted(h.plan, Expect{}, h.started),
			"zero state, started":       CheckStarted(h.plan, h.expect, State{}),
			"gate's state, started":     CheckStarted(h.plan, h.expect, h.gate),
			"started's state, gate":     Check(h.plan, h.expect, h.started),
		} {
			if v.Held() {
				t.Errorf("%s: %s holds", name, what)
			}
		}
	}
}

// notCompared are the fields of State that no row looks at, each with its reason. A field that is new in State fails the test below until it is
// compared or put here.
var notCompared = map[string]string{
	"Threads.Name":   "a process names itself",
	"Threads.FDSize": "the room in a table; what is in it is compared",
	"Exe":            "every launcher's memfd has one name; ExeID is compared",
	"EnvironOwner":   "only the process's own uid means that it is dumpable; that is in TestCheckNamesTheControl",
}

// theTargetsOwn are the fields that the second look leaves alone besides.
var theTargetsOwn = map[string]string{
	"Threads.Umask":          "the target may set it",
	"Threads.SigBlocked":     "the target may set it; all blocked is told apart in its own test",
	"Threads.SigIgnored":     "the target may set it",
	"Threads.SigCaught":      "the target may set it",
	"Threads.Tracer":         "the target may trace a child of its own, where its profile lets it",
	"Threads.SeccompFilters": "the target may add filters; fewer are told apart in its own test",
	"Cwd":                    "the target may change it",
	"ExeID":                  "the target may execute another program; the worker's is told apart in its own test",
	"Terminal.Number":        "the target may give its terminal up, and no other is within its reach",
	"Terminal.File":          "not read: the target may open and close",
	"Filter":                 "not read: a tracer's interrupt would show",
	"FDs":                    "the target may open and close; ours are told apart in their own test",
}

// Every single change to the state of a child is noticed.
func TestCheckNoticesEveryChange(t *testing.T) {
	for name, h := range examples(t) {
		seen := map[string]bool{}
		mutate(t, h.gate, func(path string, changed State) {
			seen[path] = true
			v := Check(h.plan, h.expect, changed)
			if _, free := notCompared[path]; free == !v.Held() && !irrelevant(h.plan, path, changed, h.gate) {
				t.Errorf("%s: %s changed, and the verdict holds: %v", name, path, v.Held())
			}
		})
		for path := range notCompared {
			if !seen[path] {
				t.Errorf("%s: %s isn't a field", name, path)
			}
		}
		if len(seen) < 30 {
			t.Errorf("%s: only %d fields were changed: %v", name, len(seen), seen)
		}
	}
}

func TestCheckStartedNoticesEveryChange(t *testing.T) {
	for name, h := range examples(t) {
		mutate(t, h.started, func(path string, changed State) {
			v := CheckStarted(h.plan, h.expect, changed)
			_, free := notCompared[path]
			_, free2 := theTargetsOwn[path]
			if (free || free2) == !v.Held() && !irrelevant(h.plan, path, changed, h.started) {
				t.Errorf("%s: %s changed, and the verdict holds: %v", name, path, v.Held())
			}
		})
	}
}

// irrelevant are changes that must not be noticed, or needn't: limits that the plan doesn't set, cgroup values likewise, the filter where it isn't
// read back.
func irrelevant(p Plan, path string, changed, original State) bool {
	switch path {
	case "Limits.Name", "Limits.Soft", "Limits.Hard":
		for i, limit := range changed.Limits {
			if limit != original.Limits[i] {
				return !slices.ContainsFunc(p.RLimits, func(l RLimit) bool { return l.Name == original.Limits[i].Name })
			}
		}
	case "Threads.PID", "Threads.NSPID":
		// A thread that isn't the leader may have any id.
		return len(changed.Threads) > 1 && !reflect.DeepEqual(changed.Threads[1], original.Threads[1])
	case "Outline.Network", "Outline.Root", "Outline.UserMap", "Outline.Cgroup", "Outline.Depth":
		return !changed.Opaque // the links say more
	case "CgroupValues":
		return len(p.Cgroup) == 0
	case "Filter":
		return !p.Readback
	}
	return false
}

// mutate calls visit with a copy of the state for each of its leaves, that leaf changed; a slice or map is also tried one element shorter and one
// longer. path names the field, without indices.
func mutate(t *testing.T, s State, visit func(path string, changed State)) {
	t.Helper()
	var walk func(path string, value reflect.Value)
	walk = func(path string, value reflect.Value) {
		change := func(edit func(reflect.Value)) {
			copied := cloneState(t, s)
			edit(follow(reflect.ValueOf(&copied).Elem(), path))
			visit(fieldPath(path), copied)
		}
		switch value.Kind() {
		case reflect.Struct:
			for i := range value.NumField() {
				name := value.Type().Field(i).Name
				walk(join(path, name), value.Field(i))
			}
		case reflect.Slice, reflect.Array:
			if value.Kind() == reflect.Slice && value.Type().Elem().Kind() != reflect.Struct {
				change(func(v reflect.Value) { v.Set(reflect.Append(v, another(v.Type().Elem()))) })
				if value.Len() > 0 {
					change(func(v reflect.Value) { v.Set(v.Slice(0, v.Len()-1)) })
				}
			}
			if value.Type().Elem().Kind() == reflect.Uint8 {
				if value.Len() > 0 {
					change(func(v reflect.Value) { v.Index(0).SetUint(v.Index(0).Uint() ^ 1) })
				}
				return
			}
			for i := range value.Len() {
				walk(fmt.Sprintf("%s[%d]", path, i), value.Index(i))
			}
		case reflect.Map:
			for _, key := range value.MapKeys() {
				change(func(v reflect.Value) { v.SetMapIndex(key, reflect.Value{}) })
				change(func(v reflect.Value) { v.SetMapIndex(key, altered(v.MapIndex(key))) })
			}
		default:
			change(func(v reflect.Value) { v.Set(altered(v)) })
		}
	}
	walk("", reflect.ValueOf(s))
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// fieldPath is a path without indices.
func fieldPath(path string) string {
	var out strings.Builder
	for rest := path; rest != ""; {
		before, after, found := strings.Cut(rest, "[")
		out.WriteString(before)
		if !found {
			break
		}
		_, rest, _ = strings.Cut(after, "]")
	}
	return out.String()
}

// follow finds the value at a path such as "Threads[0].UIDs[2]".
func follow(v reflect.Value, path string) reflect.Value {
	for part := range strings.SplitSeq(path, ".") {
		name, rest, _ := strings.Cut(part, "[")
		v = v.FieldByName(name)
		for rest != "" {
			var index int
			if _, err := fmt.Sscanf(rest, "%d]", &index); err != nil {
				panic(err)
			}
			v = v.Index(index)
			_, rest, _ = strings.Cut(rest, "[")
		}
	}
	return v
}

// altered is another value of the same type.
func altered(v reflect.Value) reflect.Value {
	changed := reflect.New(v.Type()).Elem()
	switch v.Kind() {
	case reflect.Bool:
		changed.SetBool(!v.Bool())
	case reflect.Int, reflect.Int64:
		changed.SetInt(v.Int() + 1)
	case reflect.Uint64:
		changed.SetUint(v.Uint() ^ 1)
	case reflect.String:
		changed.SetString(v.String() + "x")
	default:
		panic("a kind of field that this test doesn't know: " + v.Kind().String())
	}
	return changed
}

func another(elem reflect.Type) reflect.Value {
	value := reflect.New(elem).Elem()
	if elem.Kind() == reflect.Int {
		value.SetInt(99)
	}
	return value
}

func TestCheckNamesTheControl(t *testing.T) {
	type change struct {
		name    string
		control string
		edit    func(*held)
	}
	for _, test := range []change{
		{"second thread", "threads", func(h *held) { h.gate.Threads = append(h.gate.Threads, h.gate.Threads[0]) }},
		{"a thread without filter", "seccomp.mode[4001]", func(h *held) {
			second := h.gate.Threads[0]
			second.PID, second.Seccomp = 4001, 0
			h.gate.Threads = append(h.gate.Threads, second)
		}},
		{"no_new_privs", "no_new_privs", func(h *held) { h.gate.Threads[0].NoNewPrivs = 0 }},
		{"one capability in the bounding set", "capabilities.bounding", func(h *held) { h.gate.Threads[0].Bounding = 1 << 40 }},
		{"saved uid of the worker", "identity.uid", func(h *held) { h.gate.Threads[0].UIDs[2]-- }},
		{"another group", "identity.groups", func(h *held) { h.gate.Threads[0].Groups = append(h.gate.Threads[0].Groups, 27) }},
		{"traced", "process.tracer", func(h *held) { h.gate.Threads[0].Tracer = 1 }},
		{"another process", "process.pid", func(h *held) { h.expect.PID++ }},
		{"not a session leader", "session", func(h *held) { h.gate.Threads[0].NSSID = []int{3990, 1} }},
		{"limit", "rlimit.nofile", func(h *held) { h.gate.Limits[7].Soft++ }},
		{"limit not listed", "rlimit.core", func(h *held) { h.gate.Limits = h.gate.Limits[:4] }},
		{"the daemon's network", "namespaces.net", func(h *held) { h.gate.Namespaces["net"] = 4 }},
		{"another root of the same name", "root", func(h *held) { h.gate.RootID = "8:1:2" }},
		{"another descriptor", "fd.9", func(h *held) { h.gate.FDs[9] = "/" }},
		{"a descriptor of another thing", "fd.1", func(h *held) { h.gate.FDs[1] = "socket:[2]" }},
		{"a descriptor is closed", "fd.3", func(h *held) { delete(h.gate.FDs, 3) }},
		{"another target", "target", func(h *held) { h.gate.FDs[6] = "/usr/bin/false" }},
		{"another binary", "exe", func(h *held) { h.gate.ExeID = "0:1:100" }},
		{"dumpable", "dumpable", func(h *held) { h.gate.EnvironOwner = h.plan.Identity.UID }},
		{"a step left out", "gate.steps", func(h *held) { h.expect.StepsWalked-- }},
		{"a step left out: probes", "landlock.fs", func(h *held) { h.expect.StepsWalked-- }},
		{"no steps at all", "gate.steps", func(h *held) { h.expect.StepsPlanned, h.expect.StepsWalked = 0, 0 }},
		{"signals", "signals.blocked", func(h *held) { h.gate.Threads[0].SigBlocked = 1 << 14 }},
		{"handler", "signals.caught", func(h *held) { h.gate.Threads[0].SigCaught = 1 }},
		{"no sandbox known", "namespaces.mnt", func(h *held) { h.expect.Namespaces = nil; h.gate.Namespaces = nil }},
		{"uid 0 in the plan", "identity.uid", func(h *held) { h.plan.Identity.UID = 0; h.gate.Threads[0].UIDs = [4]int{} }},
		{"uid -1 in the plan", "identity.uid", func(h *held) {
			const none = 1<<32 - 1
			h.plan.Identity.UID, h.gate.Threads[0].UIDs = none, [4]int{none, none, none, none}
		}},
	} {
		for name, h := range examples(t) {
			test.edit(&h)
			v := Check(h.plan, h.expect, h.gate)
			if !slices.ContainsFunc(v.Failed(), func(row policy.Row) bool { return row.Control == test.control }) {
				t.Errorf("%s, %s: %s doesn't fail, but\n%s", name, test.name, test.control, failed(v))
			}
		}
	}
	root := examples(t)["root"]
	root.gate.Filter[7]++
	if v := Check(root.plan, root.expect, root.gate); v.Held() || v.Failed()[0].Control != "seccomp.filter" {
		t.Errorf("another filter:\n%s", failed(v))
	}
	root = examples(t)["root"]
	root.gate.Filter = nil
	if v := Check(root.plan, root.expect, root.gate); v.Held() {
		t.Error("a filter that wasn't read holds")
	}
	root = examples(t)["root"]
	root.gate.CgroupValues["memory.max"] = "max"
	if v := Check(root.plan, root.expect, root.gate); v.Held() || v.Failed()[0].Control != "cgroup.memory.max" {
		t.Errorf("memory:\n%s", failed(v))
	}
	root = examples(t)["root"]
	root.expect.Cgroup, root.gate.Cgroup = "", ""
	if v := Check(root.plan, root.expect, root.gate); v.Held() {
		t.Error("no cgroup holds, where the plan kills by it")
	}
}

func TestCheckStartedNamesTheControl(t *testing.T) {
	for _, test := range []struct {
		name    string
		control string // empty: it holds
		edit    func(*held)
	}{
		{"a setuid bit acted", "identity.uid", func(h *held) { h.started.Threads[0].UIDs, h.started.Threads[1].UIDs = [4]int{}, [4]int{} }},
		{"file capabilities acted", "capabilities.permitted", func(h *held) { h.started.Threads[0].Permitted, h.started.Threads[1].Permitted = 1, 1 }},
		{"still the worker", "exe", func(h *held) { h.started.ExeID = h.expect.WorkerID }},
		{"our binary is asked for, another runs", "exe", func(h *held) { h.expect.Own = true }},
		{"the gate is still open", "fd.4", func(h *held) { h.started.FDs[4] = h.expect.FDs[4] }},
		{"the gate is open under another number", "fd.4", func(h *held) { h.started.FDs[30] = h.expect.FDs[4] }},
		{"the target blocks every signal", "", func(h *held) {
			h.started.Threads[0].SigBlocked, h.started.Threads[1].SigBlocked = ^uint64(0), ^uint64(0)
		}},
		{"one thread without filter", "seccomp.mode[4001]", func(h *held) { h.started.Threads[1].Seccomp = 0 }},
		{"a higher limit", "rlimit.nofile", func(h *held) { h.started.Limits[7].Hard++ }},
		{"no limit", "rlimit.nofile", func(h *held) { h.started.Limits[7].Soft = -1 }},
		{"a lower limit", "", func(h *held) { h.started.Limits[7].Soft-- }},
		{"more filters", "", func(h *held) { h.started.Threads[0].SeccompFilters, h.started.Threads[1].SeccompFilters = 2, 2 }},
		{"fewer filters", "seccomp.filters", func(h *held) { h.started.Threads[0].SeccompFilters, h.started.Threads[1].SeccompFilters = 0, 0 }},
		{"the target opened itself", "", func(h *held) { h.started.FDs[11] = h.expect.Target }},
		{"the target closed its input and made a socket", "", func(h *held) { delete(h.started.FDs, 0); h.started.FDs[4] = "socket:[999]" }},
		{"another program", "", func(h *held) { h.started.ExeID = "8:1:78" }},
	} {
		for name, h := range examples(t) {
			test.edit(&h)
			v := CheckStarted(h.plan, h.expect, h.started)
			if test.control == "" {
				if !v.Held() {
					t.Errorf("%s, %s:\n%s", name, test.name, failed(v))
				}
				continue
			}
			if !slices.ContainsFunc(v.Failed(), func(row policy.Row) bool { return row.Control == test.control }) {
				t.Errorf("%s, %s: %s doesn't fail, but\n%s", name, test.name, test.control, failed(v))
			}
		}
	}
}

// Controls that can't be read are known by trying: one row for each probe, graded so.
func TestProbesAreRows(t *testing.T) {
	for name, want := range map[string][]string{
		"root":     {"securebits", "landlock.fs", "landlock.scope.abstract", "landlock.net.bind", "landlock.net.connect"},
		"ordinary": {"securebits", "landlock.fs", "landlock.scope.abstract", "landlock.net.bind", "landlock.net.connect", "landlock.scope.signal"},
	} {
		h := examples(t)[name]
		for _, probe := range h.plan.Seccomp.Probes {
			want = append(want, "seccomp."+probe.Name)
		}
		var got []string
		for _, row := range Check(h.plan, h.expect, h.gate).Rows {
			if row.Evidence == policy.EvidenceProbe {
				got = append(got, row.Control)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
}

func TestRowsAreTextForPeople(t *testing.T) {
	h := examples(t)["root"]
	h.gate.Threads[0].Bounding = 1<<21 | 1
	for _, row := range Check(h.plan, h.expect, h.gate).Failed() {
		if row.Want != "none" || row.Got != "cap_chown,cap_sys_admin" {
			t.Errorf("%+v", row)
		}
	}
	for _, row := range Check(h.plan, h.expect, h.gate).Rows {
		if row.Control == "" || row.Want == "" || row.Got == "" || row.Evidence == "" {
			t.Errorf("%+v", row)
		}
	}
}

func BenchmarkCheck(b *testing.B) {
	h := examples(b)["root"]
	b.ReportAllocs()
	for b.Loop() {
		if v := Check(h.plan, h.expect, h.gate); !v.Held() {
			b.Fatal(failed(v))
		}
	}
}
