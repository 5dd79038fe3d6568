package enforcer

import (
	"reflect"
	"testing"

	"github.com/sandboxd/sandboxd/enforcer/landlock"
	"github.com/sandboxd/sandboxd/enforcer/seccomp"
	"github.com/sandboxd/sandboxd/policy"
)

func somePlan() Plan {
	return Plan{
		Tier: policy.TierFull, Identity: Identity{1, 2, []int{3}}, Securebits: 0xef, LastCapability: 40, RLimits: []RLimit{{"nofile", 7, 9}},
		Landlock: landlock.Ruleset{ABI: 6, Paths: []landlock.PathRule{{Path: "/", Access: 1}}, Ports: []landlock.PortRule{{Port: 1, Access: 2}}},
		Seccomp: seccomp.Filter{Profile: "p", Program: seccomp.Program{{Code: 6, K: 1}},
			Probes:   []seccomp.Probe{{Name: "ptrace", Nr: 101, Args: [6]uint64{1, 2, 3, 4, 5, 6}, Errno: 1}},
			Listener: "l", Answers: seccomp.Program{{Code: 6, K: 2}}},
		Cgroup: map[string]string{"pids.max": "5"}, Kill: KillCgroup, Degraded: []string{"x"},
	}
}

// eachLeaf calls visit with a change of every value that there is in v, one at a time, and takes the change back.
func eachLeaf(v reflect.Value, path string, visit func(path string)) {
	was := reflect.New(v.Type()).Elem()
	was.Set(v)
	change := func(to any) {
		v.Set(reflect.ValueOf(to).Convert(v.Type()))
		visit(path)
		v.Set(was)
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			eachLeaf(v.Field(i), path+"."+v.Type().Field(i).Name, visit)
		}
	case reflect.Array:
		for i := range v.Len() {
			eachLeaf(v.Index(i), path+"[]", visit)
		}
	case reflect.Slice:
		for i := range v.Len() {
			eachLeaf(v.Index(i), path+"[]", visit)
		}
		v.Set(reflect.Append(v, reflect.Zero(v.Type().Elem())))
		visit(path + " longer")
		v.Set(was.Slice(0, 0))
		visit(path + " empty")
		v.Set(was)
	case reflect.Map:
		for _, other := range []any{map[string]string(nil), map[string]string{}, map[string]string{"pids.max": "6"}, map[string]string{"cpu.max": "5"}} {
			change(other)
		}
	case reflect.Bool:
		change(!v.Bool())
	case reflect.String:
		change(v.String() + "x")
	default:
		change(v.Convert(reflect.TypeFor[int64]()).Int() + 1)
	}
}

// Two plans are equal only where nothing differs, and each has the digest of its own JSON.
func TestPlanEqual(t *testing.T) {
	changed := somePlan()
	if !changed.Equal(somePlan()) || changed.Digest() != changed.newDigest() {
		t.Fatal("a plan isn't equal to itself")
	}
	changes := 0
	eachLeaf(reflect.ValueOf(&changed).Elem(), "plan", func(path string) {
		changes++
		if changed.Equal(somePlan()) || somePlan().Equal(changed) {
			t.Errorf("%s: equal", path)
		}
		if got := changed.Digest(); got != changed.newDigest() || got == somePlan().Digest() {
			t.Errorf("%s: digest %s", path, got)
		}
	})
	if changes < 50 {
		t.Errorf("%d changes", changes)
	}
}

// What was derived from a plan doesn't change with what its maker does to it afterwards.
func TestDerivedIsOfACopy(t *testing.T) {
	plan := somePlan()
	before := plan.Digest()
	plan.Seccomp.Program[0].K, plan.RLimits[0].Value, plan.Identity.Groups[0], plan.Cgroup["pids.max"] = 9, 10, 11, "12"
	if after := plan.Digest(); after == before || after != plan.newDigest() || somePlan().Digest() != before {
		t.Errorf("digest %s, before the change %s", after, before)
	}
}
