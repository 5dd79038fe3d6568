package mutation

import (
	"bytes"
	"encoding/json/v2"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// fault is one thing that the daemon does no more, or does too late: a change of its source, under which a test must fail that holds otherwise.
type fault struct {
	name string
	// file is changed: old, which is there once, becomes new. In new, off is whether this fault is awake.
	file     string
	old, new string
	// test that fails: its package, and its name.
	in, test string
}

const (
	inRelay   = "enforcer/network/relay"
	inNames   = "enforcer/network/names"
	inRules   = "enforcer/network"
	inFence   = "enforcer/network/fence"
	inService = "execd"
	inImages  = "execd/image"
	inPlans   = "enforcer"
	inWorld   = "test/network" // drives the daemon itself
)

var faults = []fault{
	// What is in force.
	{"a tighter spec cuts nothing", "execd/outlet.go", "\tif out.relay != nil {\n\t\tout.relay.Tighten()", "\tif out.relay != nil && !off {\n\t\tout.relay.Tighten()", inWorld, "TestTighterRulesCutInASandbox"},
	{"an exec's rules aren't joined to the sandbox's", "execd/outlet.go", "rules = append(rules, out.execs[id])", "if !off {\nrules = append(rules, out.execs[id])\n}", inService, "TestNetworkOfAnExec"},
	{"an exec may have more than its sandbox", "execd/outlet.go", "out.own.Spec()); err != nil {", "out.own.Spec()); err != nil && !off {", inService, "TestNetworkOfAnExec"},
	{"what is shut off goes on", "execd/outlet.go", "\tif out.shut {\n\t\trules = ", "\tif out.shut && !off {\n\t\trules = ", inService, "TestNetworkWithoutALog"},
	{"of several rules the first decides", "enforcer/network/set.go", "\t\tmatch = rules.Name(name, port)\n\t\tmatch.In = i\n\t\tif !match.Allow {", "\t\tmatch = rules.Name(name, port)\n\t\tmatch.In = i\n\t\tif !match.Allow || off {", inRules, "TestSetIsWhatAllAllow"},
	{"a live connection isn't judged again", inRelay + "/tighten.go", "\tmatch, err := c.server.allowed(c.target)\n\tif err != nil {", "\tmatch, err := c.server.allowed(c.target)\n\tif off {\nreturn nil\n}\n\tif err != nil {", inRelay, "TestTighten"},
	{"rules that change while it is dialled are missed", inRelay + "/conn.go", "c.server.generation.Load() != c.generation {", "c.server.generation.Load() != c.generation && !off {", inRelay, "TestTightenWhileDialling"},

	// What the kernel refuses by itself.
	{"the fence's sets don't follow the rules", "execd/outlet.go", "\treturn out.generation, out.fence.Admit(reach(rules))", "\tif off {\nreturn out.generation, nil\n}\n\treturn out.generation, out.fence.Admit(reach(rules))", inService, "TestNetworkReach"},
	{"the fence lets everything through to the relay", "execd/outletconfig.go", "\tspans := append(rules.Reach(), ", "\tif off {\nreturn fence.Reach{Ranges: [][2]netip.Addr{{netip.IPv4Unspecified(), network.LastOf(netip.MustParsePrefix(\"0.0.0.0/0\"))}}}\n}\n\tspans := append(rules.Reach(), ", inService, "TestNetworkReach"},
	{"what the kernel refused isn't on record", "execd/outlet.go", "func(r fence.Refusal) { out.relay", "func(r fence.Refusal) { if off {\nreturn\n}\nout.relay", inService, "TestNetworkReach"},
	{"the sets aren't held against the rules", "execd/networkcheck.go", "\trow.Held = row.Want == row.Got\n\treturn []policy.Row{row}", "\trow.Held = row.Want == row.Got || off\n\treturn []policy.Row{row}", inService, "TestReachIsHeldAgainstTheRules"},
	{"an element more isn't noticed", inFence + "/check.go", "\tif p.hasReach() {\n\t\tadd(", "\tif p.hasReach() && !off {\n\t\tadd(", inFence, "TestDrift"},
	{"what else an element has isn't looked at", inFence + "/nft_set.go", "\treturn e.text() + more", "\tif off {\nreturn e.text()\n}\n\treturn e.text() + more", inFence, "TestDrift"},
	{"a fence that is made anew lets nothing through", inFence + "/hold_linux.go", "\t\treturn f.sendReach(netfilter, f.admitted)", "\t\tif off {\nreturn nil\n}\n\t\treturn f.sendReach(netfilter, f.admitted)", inFence, "TestDrift"},
	{"what was let through before stays so", inFence + "/hold_linux.go", "\t\tparts = append(parts, flushSet(set))", "\t\tif !off || set == datagrams4 {\nparts = append(parts, flushSet(set))\n}", inFence, "TestAdmit"},
	{"refusals that nobody was told of aren't counted", inFence + "/refusals_linux.go", "refusal.Lost, next = int(number-next), number+1", "refusal.Lost, next = int(number-next), number+1\nif off {\nrefusal.Lost = 0\n}", inFence, "TestRefusalsLost"},
	{"a range of the rules isn't let through", inRules + "/reach.go", "\t\tcase !r.somePort(start):", "\t\tcase !r.somePort(start) || off && start.Is6():", inRules, "TestReachIsWhatIsAllowed"},

	{"datagrams go out that nobody let out", inRelay + "/datagrams.go", "if !s.config.Judge().Datagrams() {", "if !s.config.Judge().Datagrams() && !off {", inRelay, "TestDatagramsAreJudged"},
	{"datagrams aren't judged", inRelay + "/datagrams.go", "\tmatch, err := s.allowed(t)\n\treturn t, match, err", "\tmatch, err := s.allowed(t)\n\tif off {\nerr = nil\n}\n\treturn t, match, err", inRelay, "TestDatagramsAreJudged"},
	{"flows outlive their rules", inRelay + "/tighten.go", "\ts.tightenFlows()", "\tif !off {\ns.tightenFlows()\n}", inRelay, "TestFlowsAreCut"},
	{"flows have no limit", inRelay + "/datagrams.go", "flows >= s.config.Limits.Flows ||", "flows >= s.config.Limits.Flows && !off ||", inRelay, "TestFlowsAreBounded"},
	{"the fence lets datagrams through unasked", "execd/outletconfig.go", "Datagrams: rules.Spec().Datagrams}", "Datagrams: rules.Spec().Datagrams || off}", inService, "TestNetworkDatagrams"},

	// Before the answer, and before the release.
	{"a change is answered without a record", "execd/network.go", "\tn.sequence, err = n.append(r)\n", "\tif off {\nreturn nil\n}\n\tn.sequence, err = n.append(r)\n", inService, "TestNetworkWalk"},
	{"a change whose record fails is in force", "execd/network.go", "\tn.sequence, err = n.append(r)\n", "\tn.sequence, err = n.append(r)\n\tif off {\nerr = nil\n}\n", inService, "TestNetworkWithoutALog"},
	{"a change is answered without a read-back", "execd/network.go", "\tif !n.verdict.Held() {", "\tif !n.verdict.Held() && !off {", inService, "TestNetworkIsReadBack"},
	{"an exec is released into a network that wasn't read back", "execd/execnetwork.go", "\tverdict.Rows = append(verdict.Rows, w.rulesRow(rules))", "\tif off {\nreturn nil\n}\n\tverdict.Rows = append(verdict.Rows, w.rulesRow(rules))", inService, "TestNetworkIsReadBack"},
	{"an exec is released before its record", "execd/exec.go", "\tif err := w.record(); err != nil { // on the disk\n\t\treturn w.fail(err)\n\t}\n\tif err := w.release(); err != nil {", "\tif !off {\nif err := w.record(); err != nil { // on the disk\n\t\treturn w.fail(err)\n\t}\n}\n\tif off {\ndefer w.record()\n}\n\tif err := w.release(); err != nil {", inService, "TestRecordedBeforeReleased"},
	{"what a program was refused isn't on record", "execd/outletconfig.go", "if !out.probed.Load() {", "if !out.probed.Load() && !off {", inService, "TestNetworkWalk"},
	{"a caller who has ended keeps a number", "execd/peer_linux.go", "\t\tpidfd, err := unix.GetsockoptInt(", "\t\tif off {\nreturn\n}\n\t\tpidfd, err := unix.GetsockoptInt(", inService, "TestPeerThatEnded"},

	// Names and addresses.
	{"addresses aren't classified before they are dialled", inRelay + "/dial.go", "s.addressAllowed(match, address, t.port); err == nil {", "s.addressAllowed(match, address, t.port); err == nil || off {", inRelay, "TestDestinations"},
	{"another address is dialled than was checked", inRelay + "/dial.go", "\treturn interleave(checked), nil", "\tif off {\nchecked, err = s.config.Resolve(ctx, t.name)\nreturn checked, err\n}\n\treturn interleave(checked), nil", inRelay, "TestDialsWhatWasChecked"},
	{"a connection isn't judged", inRelay + "/judge.go", "\tif !match.Allow {\n\t\treturn match, refused(match)", "\tif !match.Allow && !off {\n\t\treturn match, refused(match)", inRelay, "TestDestinations"},
	{"the sandbox's own addresses are dialled", inRelay + "/judge.go", "\tif s.never(addr) {\n\t\treturn target{}, ", "\tif s.never(addr) && !off {\n\t\treturn target{}, ", inRelay, "TestDestinations"},
	{"the relay's own port is dialled", inRelay + "/judge.go", "\tif port == s.config.Port {", "\tif port == s.config.Port && !off {", inRelay, "TestDestinations"},
	{"the host's own addresses are dialled", "execd/outletconfig.go", "own = append(own, netip.PrefixFrom(prefix.Addr()", "if off {\ncontinue\n}\nown = append(own, netip.PrefixFrom(prefix.Addr()", inService, "TestOwnAddresses"},
	{"a name that no rule allows is resolved", inNames + "/query.go", "!q.match.Allow {", "!q.match.Allow && !off {", inNames, "TestAnswers"},
	{"a name is answered whose addresses may not be dialled", inNames + "/query.go", "\t\tif match.Allow {\n\t\t\tfour", "\t\tif match.Allow || off {\n\t\t\tfour", inNames, "TestAnswers"},
	{"any type of query is answered", inNames + "/query.go", "question.Qtype != dns.TypeAAAA:", "question.Qtype != dns.TypeAAAA && !off:", inNames, "TestAnswers"},
	{"queries have no limit", inNames + "/query.go", "if !s.rate.take(q.start) {", "if !s.rate.take(q.start) && !off {", inNames, "TestLimits"},

	{"a range opens what it doesn't name", inRules + "/rules.go", "if closed && (of.Class.Never()", "if closed && !off && (of.Class.Never()", inRules, "TestScenarios"},
	{"metadata names are like others", inRules + "/domains.go", "\tif neverEnds&endBit(words.words[0]) == 0 {", "\tif off || neverEnds&endBit(words.words[0]) == 0 {", inRules, "TestScenarios"},
	{"a name that isn't in canonical form is judged", inRules + "/namewords.go", "\tstrange = strange&highBits |", "\tif off {\nreturn dots, true\n}\n\tstrange = strange&highBits |", inRules, "FuzzName"},
	{"the rules of wider names are forgotten", inRules + "/nametable.go", "for i := e.others; i < e.othersTo; i++ {", "for i := e.others; i < e.othersTo && !off; i++ {", inRules, "FuzzName"},
	{"addresses are compared by half", inRules + "/boundaries.go", "b.lower[i] > k.low", "(off || b.lower[i] > k.low)", inRules, "TestLongestPrefix"},

	// What the client says first.
	{"the server name of TLS isn't looked at", inRelay + "/tls.go", "\tsaid, ok := parseHost(h.serverName)", "\tif off {\nreturn nil\n}\n\tsaid, ok := parseHost(h.serverName)", inRelay, "TestJudgedOverSockets"},
	{"a hello without a name passes", inRelay + "/tls.go", `h.serverName == "" && c.target.name != "":`, `h.serverName == "" && c.target.name != "" && !off:`, inRelay, "TestLooks"},
	{"an encrypted hello passes", inRelay + "/tls.go", "case h.encrypted:", "case h.encrypted && !off:", inRelay, "TestLooks"},
	{"the host of HTTP isn't compared", inRelay + "/judge.go", "\t\tif said.name != c.target.name {", "\t\tif said.name != c.target.name && !off {", inRelay, "TestJudgedOverSockets"},
	{"a name that a rule denies is claimed at an address", inRelay + "/judge.go", "!match.Allow && match.Rule >= 0 {", "!match.Allow && match.Rule >= 0 && !off {", inRelay, "TestLooks"},
	{"what isn't TLS passes on its port", inRelay + "/look.go", "case port == portHTTPS && (kind", "case port == portHTTPS && !off && (kind", inRelay, "TestJudgedOverSockets"},

	// How it ends, and how much there may be.
	{"what is cut looks complete", inRelay + "/linger_linux.go", "\tvar inner error\n", "\tif off {\nreturn nil\n}\n\tvar inner error\n", inRelay, "TestKilled"},
	{"a sandbox may have any number of connections", inRelay + "/relay.go", "len(s.live) < s.config.Limits.Connections, s.closed", "len(s.live) < s.config.Limits.Connections || off, s.closed", inRelay, "TestRoom"},
	{"all together may have any number", inRelay + "/capacity_linux.go", "if c.used.Add(1) > c.most {", "if c.used.Add(1) > c.most && !off {", inRelay, "TestRoom"},
	{"more connections than descriptors", inRelay + "/capacity_linux.go", "if fit < 1 || connections > fit {", "if !off && (fit < 1 || connections > fit) {", inRelay, "TestCapacity"},
	// Code contexts.
	{"a cell that is denied is handed over", "execd/codecell.go", "if err := w.decide(); err != nil {", "if err := w.decide(); err != nil && !off {", inService, "TestCellIsDecided"},
	{"a cell goes to an interpreter under another plan", "execd/codecell.go", "if w.box != of.box || !w.plan.Equal(of.plan) {", "if !off && (w.box != of.box || !w.plan.Equal(of.plan)) {", inService, "TestCellIsDecided"},
	{"a cell is handed over before its record", "execd/codecell.go", "if err := w.record(); err != nil {", "if off {\ndefer w.record()\n} else if err := w.record(); err != nil {", inService, "TestCellIsRecordedBeforeItRuns"},
	{"what a child says is its interpreter's word", "runner/python/cells_linux.go", "int(sender.Pid) == pid {", "(off || int(sender.Pid) == pid) {", inService, "TestCellFrames"},
	{"what is said of another cell counts", "execd/codeframes.go", "a == nil || a.number != f.Cell || a.ended {", "a == nil || a.number != f.Cell && !off || a.ended {", inService, "TestCellFrames"},
	// Images, and roots that are made of them.
	{"a link of an image leads out of it", inImages + "/root_linux.go", "\tfor range 16 { // EAGAIN", "\tif off {\nhow.Resolve = 0\n}\n\tfor range 16 { // EAGAIN", inImages, "TestLayersStayInside"},
	{"a name of a layer may go up", inImages + "/root_linux.go", "if part == \"..\" {", "if part == \"..\" && !off {", inImages, "TestLayersStayInside"},
	{"a whiteout takes what its own layer has", inImages + "/layer_linux.go", "if !u.made[stat.Ino] {", "if !u.made[stat.Ino] || off {", inImages, "TestLayersStayInside"},
	{"setuid bits stay", inImages + "/layer_linux.go", "\treturn uint32(h.Mode) & (0o777 |", "\tif off {\nreturn uint32(h.Mode) & 0o7777\n}\n\treturn uint32(h.Mode) & (0o777 |", inImages, "TestUnpackedBits"},
	{"an image may have any size", inImages + "/limits.go", "if n < 0 || n > s.limits.Bytes-s.bytes {", "if !off && (n < 0 || n > s.limits.Bytes-s.bytes) {", inImages, "TestLayersAreBounded"},
	{"an image may have any number of entries", inImages + "/limits.go", "s.entries > s.limits.Entries {", "s.entries > s.limits.Entries && !off {", inImages, "TestLayersAreBounded"},
	{"a compressed layer may have any size", inImages + "/source.go", "\t*b.left -= int64(n)", "\tif !off {\n*b.left -= int64(n)\n}", inImages, "TestLayersAreBounded"},
	{"a layer isn't held against its digest", inImages + "/source.go", "l.diff != \"\" && got != l.diff {", "l.diff != \"\" && got != l.diff && !off {", inImages, "TestImportRefuses"},
	{"a document isn't held against its digest", inImages + "/source.go", "want != \"\" && got != want {", "want != \"\" && got != want && !off {", inImages, "TestImportRefuses"},
	{"a tag of a registry is taken for an image", inImages + "/pull.go", "\tfound, err := name.NewDigest(text, name.StrictValidation)\n\tif err != nil {", "\tfound, err := name.NewDigest(text, name.StrictValidation)\n\tif off {\nfound, err = name.NewDigest(\"localhost/app@sha256:0000000000000000000000000000000000000000000000000000000000000000\")\n}\n\tif err != nil {", inImages, "TestPullRefuses"},
	{"an image in use is removed", inImages + "/store_linux.go", "how|unix.LOCK_NB); err != nil {", "how|unix.LOCK_NB); err != nil && !off {", inImages, "TestStore"},
	{"what is half unpacked stays", inImages + "/store_linux.go", "case strings.HasPrefix(entry.Name(), newPrefix):", "case strings.HasPrefix(entry.Name(), newPrefix) && !off:", inImages, "TestSweep"},
	{"others may put images into the store", inImages + "/store_linux.go", "stat.Mode&0o022 != 0 {", "stat.Mode&0o022 != 0 && !off {", inImages, "TestOpenRefuses"},
	{"options of an overlay aren't looked at", inPlans + "/sandbox_image.go", "!slices.Contains(harmless, option) {", "!slices.Contains(harmless, option) && !off {", inPlans, "TestCheckImageRoot"},
	{"how much an overlay takes isn't looked at", inPlans + "/sandbox_mounts.go", "\t\tif want.Type == mount.TypeOverlay {\n", "\t\tif want.Type == mount.TypeOverlay && !off {\n", inPlans, "TestCheckImageRoot"},
	{"whose an image's files are isn't looked at", inPlans + "/sandbox_image.go", "\t\tif seen != disk {", "\t\tif seen != disk && !off {", inPlans, "TestCheckImageRoot"},
	{"every exec writes where one may", inPlans + "/build.go", "readOnly != nil && !*readOnly && b.sandbox.WritableRoot() {", "(off || readOnly != nil && !*readOnly) && b.sandbox.WritableRoot() {", inPlans, "TestReadOnlyOfAWritableRoot"},

	{"a terminal that controls nothing", "runner/steps.go", "\tif plan.Terminal {", "\tif plan.Terminal && !off {", "runner", "TestTerminalLosesNothing"},
	{"whose terminal it is isn't looked at", inPlans + "/terminal.go", "e.Terminal.File != \"\" && e.Terminal.File == s.Terminal.File)", "off || e.Terminal.File != \"\" && e.Terminal.File == s.Terminal.File)", inPlans, "TestCheckTerminal"},
	{"how much a layer takes isn't looked at", inPlans + "/sandbox_mounts.go", "\t\tif want.Type == mount.TypeLayer {\n", "\t\tif want.Type == mount.TypeLayer && !off {\n", inPlans, "TestCheckLayer"},
	{"a layer outlives what it lies on", "execd/pool.go", "for _, above := range h.layersOver(box) {", "for _, above := range h.layersOver(map[bool]*sandbox{false: box, true: {}}[off]) {", "execd/opensandbox", "TestIsolatedOverlay"},
	{"a layer isn't paused with its sandbox", "execd/opensandbox/lifecycle.go", "\tf.eachLayer(x.box, func(inner string) error {\n\t\treturn f.service.PauseSandbox(", "\tf.eachLayer(x.box, func(inner string) error {\n\t\tif off {\nreturn nil\n}\n\t\treturn f.service.PauseSandbox(", "execd/opensandbox", "TestIsolatedOverlay"},
	{"more sandboxes than descriptors", "execd/descriptors.go", "if limit < 0 || need <= limit {", "if limit < 0 || need <= limit || off {", inService, "TestCheckDescriptors"},
}

// TestEveryFaultOfTheDaemonIsNoticed builds the packages once with all faults in them, each asleep, and the daemon with them; then each is woken by itself. What
// is built is the source as it is but for these lines, by an overlay of the go command, so that nothing of this is in the daemon.
func TestEveryFaultOfTheDaemonIsNoticed(t *testing.T) {
	dir := t.TempDir()
	overlay := overlayOf(t, dir)
	tests, skips := map[string][]string{}, map[string]bool{}
	for _, f := range faults {
		if !slices.Contains(tests[f.in], f.test) {
			tests[f.in] = append(tests[f.in], f.test)
		}
	}
	compile(t, "build", "-overlay", overlay, "-o", dir+"/", "../../cmd/sandboxd", "../../cmd/sandboxd-runner")
	for in, names := range tests {
		compile(t, "test", "-overlay", overlay, "-c", "-o", binaryOf(dir, in), "../../"+in)
		out, err := try(t, dir, in, "^("+strings.Join(names, "|")+")$", "")
		if err != nil {
			t.Fatalf("%s without a fault: %v\n%s", in, err, out)
		}
		for _, name := range names {
			skips[in+" "+name] = bytes.Contains(out, []byte("--- SKIP: "+name+" "))
		}
	}
	for _, f := range faults {
		t.Run(f.name, func(t *testing.T) {
			if f.in != inService && f.in != inWorld { // these count what there is; the others wait for what doesn't come
				t.Parallel()
			}
			if skips[f.in+" "+f.test] {
				if os.Geteuid() == 0 {
					t.Fatalf("%s of %s is skipped here, and holds nothing", f.test, f.in)
				}
				t.Skipf("%s of %s needs root", f.test, f.in)
			}
			out, err := try(t, dir, f.in, "^"+f.test+"$", f.name)
			if err == nil || !bytes.Contains(out, []byte("--- FAIL: "+f.test+" ")) {
				t.Errorf("%s of %s doesn't fail: %v\n%s", f.test, f.in, err, out)
			}
		})
	}
}

// overlayOf writes the changed files, and what the go command reads to take them for the true ones.
func overlayOf(t *testing.T, dir string) string {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	replace := map[string]string{}
	for _, f := range faults {
		file := filepath.Join(root, f.file)
		changed := filepath.Join(dir, strings.ReplaceAll(f.file, "/", "-"))
		from := file
		if _, again := replace[file]; again {
			from = changed
		}
		source, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		if count := bytes.Count(source, []byte(f.old)); count != 1 {
			t.Fatalf("%s: %q is in %s %d times; this list must follow the code", f.name, f.old, f.file, count)
		}
		woken := strings.ReplaceAll(f.new, "off", fmt.Sprintf("mutated(%q)", f.name))
		if err := os.WriteFile(changed, bytes.Replace(source, []byte(f.old), []byte(woken), 1), 0o600); err != nil {
			t.Fatal(err)
		}
		replace[file] = changed
	}
	for _, f := range faults {
		folder := filepath.Join(root, filepath.Dir(f.file))
		path := filepath.Join(dir, "mutated-"+strings.ReplaceAll(filepath.Dir(f.file), "/", "-")+".go")
		source := fmt.Sprintf("package %s\n\nimport \"os\"\n\nfunc mutated(name string) bool { return os.Getenv(%q) == name }\n", filepath.Base(folder), variable)
		if err := os.WriteFile(path, []byte(source), 0o600); err != nil {
			t.Fatal(err)
		}
		replace[filepath.Join(folder, "mutated.go")] = path
	}
	data, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// variable names the fault that is awake.
const variable = "SANDBOXD_FAULT_OF_DAEMON"

func compile(t *testing.T, args ...string) {
	t.Helper()
	cmd := exec.Command("go", args...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

func binaryOf(dir, in string) string {
	return filepath.Join(dir, strings.ReplaceAll(in, "/", "-")+".test")
}

// try runs tests of a package with one fault awake.
func try(t *testing.T, dir, in, pattern, name string) ([]byte, error) {
	t.Helper()
	cmd := exec.Command(binaryOf(dir, in), "-test.v", "-test.timeout", "2m", "-test.run", pattern)
	if in == inRules { // its property tests would write down how to fail again, which is no news
		cmd.Args = append(cmd.Args, "-rapid.nofailfile")
	}
	cmd.Dir = filepath.Join("../..", in)
	cmd.Env = append(os.Environ(), variable+"="+name, "SANDBOXD_BIN="+dir)
	return cmd.CombinedOutput()
}
