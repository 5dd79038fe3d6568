package opensandbox

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// faultClass is a class of faults of the reference that this server must not have.
type faultClass struct {
	number int
	what   string
	// hold tries it, in a server that those after it share, or in none where it needs one of another kind; nil where other tests hold it.
	hold func(t *testing.T, s *server)
	// elsewhere are the other tests that hold it: "folder.Test" from the top of the repository, this package's without a folder, and "file.py::test" of the
	// conformance suite.
	elsewhere string
}

var faultClasses = []faultClass{
	{1, "a pause after each command", noPause, "test_commands.py::test_no_pause_after_the_end test_raw_wire.py::test_stream_closes_after_the_terminal_event"},
	{2, "a session's time limit that waits for the command, a stream without an end, blank lines lost", sessionLimit,
		"test_sessions.py::test_timeout_ends_on_time test_raw_wire.py::test_session_timeout_has_a_terminal_event test_sessions.py::test_blank_lines"},
	{3, "a time limit or an interrupt that doesn't reach the whole tree", wholeTree,
		"test_commands.py::test_timeout_kills_the_whole_tree test_commands.py::test_interrupt_kills_the_tree test_sessions.py::test_timeout_kills_the_tree"},
	{4, "line separators that aren't escaped, a ping behind the end", cleanStream, "TestText FuzzText test_raw_wire.py::test_line_separators_are_escaped"},
	{5, "tokens in a child's environment or in /proc", nil, "TestNoSecretInReach test_commands.py::test_no_credentials_in_reach test/catalogue.TestCatalogue"},
	{6, "endpoints that are open to who has an id", insecureHasTokens, "TestEveryRouteIsItsOwners TestTwoOwners test_raw_wire.py::test_execd_needs_its_token"},
	{7, "a 401 without code and message", refusalShapes, "TestTwoOwners"},
	{8, "downloads of what isn't a file, and ranges that aren't any", badDownloads, "TestFilesRefused TestFiles test_raw_wire.py::test_bad_ranges"},
	{9, "500 where a caller could mend it", no500, "TestFilesRefused TestStream TestSessions"},
	{10, "wrong codes for a command that isn't known", unknownCommand, "TestStream test_raw_wire.py::test_unknown_command"},
	{11, "mode bits and owners ignored, $ expanded in paths, escapes not undone", specialBits, "TestFilesRefused TestFiles TestEnvFile FuzzEnvFile"},
	{12, "policies that aren't checked", nil, "TestRefusals TestPolicy test_egress.py::test_unenforceable_target_is_refused"},
	{13, "enforcement that is said and not read back", nil, "TestEnforcementIsProven TestPolicy"},
	{14, "metrics of the machine, after a second", ownMetrics, "test_lifecycle.py::test_metrics_describe_the_sandbox"},
	{15, "output in files that others can read, and that stay", outputIsNobodys, ""},
	{16, "policy not applied to sandboxes made ahead; the policy's own API within reach of the sandbox", pooledPolicy,
		"test_egress.py::test_sandbox_cannot_reach_the_control_plane"},
	{17, "an unfiltered window when who enforces is killed", nil,
		"test/network.TestDaemonKilled test/network.TestNothingPassesWithoutTheDaemon test/faults.TestNetworkEnds test/faults.TestDaemonDiesAtEachNetworkPoint runner.TestSandboxEndsWithDaemon"},
	{18, "a first event of a command that isn't known yet", initIsKnown, "test_commands.py::test_status_right_after_init"},
	{19, "lines lost or cut", everyLine, "TestLines FuzzLines test_commands.py::test_line_rules test_commands.py::test_long_line_is_whole"},
	{20, "null for an empty list, a size of 0 left out, no traceback", emptyIsNotNull, "TestFiles test_raw_wire.py::test_empty_lists_are_arrays"},
	{21, "modes of directories changed that were there, links followed by a list", nil, "TestFiles TestFilesRefused"},
	{22, "credentials passed on to a port of the sandbox, streams held back", proxyStreams, "TestPorts test_lifecycle.py::test_proxy_keeps_credentials_to_itself"},
	{23, "pings to a client that has gone, descriptors left by failed starts", nothingLeft, "runner.TestSandboxLeaksNothing test/faults.TestNothingLeaks"},
	{24, "secrets in logs of commands", quietLogs, "TestNoSecretInReach execd/audit.TestRedactTakesSecretsOut"},
}

// TestFaultClasses: none of the classes is present.
func TestFaultClasses(t *testing.T) {
	// A process has one server at a time.
	ofTheirOwn := []int{6, 16, 24}
	run := func(s *server, own bool) {
		for _, class := range faultClasses {
			if class.hold != nil && slices.Contains(ofTheirOwn, class.number) == own {
				t.Run(fmt.Sprintf("%02d %s", class.number, class.what), func(t *testing.T) { class.hold(t, s.in(t)) })
			}
		}
	}
	run(nil, true)
	run(serve(t, ""), false)
}

// TestFaultClassesAreHeld: each class of the list is in the table, and the tests that it names are there.
func TestFaultClassesAreHeld(t *testing.T) {
	const classes = 24
	if len(faultClasses) != classes {
		t.Errorf("%d classes, want %d", len(faultClasses), classes)
	}
	sources := map[string]string{}
	source := func(pattern string) string {
		if text, known := sources[pattern]; known {
			return text
		}
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			sources[pattern] += string(text)
		}
		return sources[pattern]
	}
	for i, class := range faultClasses {
		if class.number != i+1 || class.what == "" {
			t.Errorf("class %d stands at place %d", class.number, i+1)
		}
		ours := class.hold != nil
		for name := range strings.FieldsSeq(class.elsewhere) {
			if file, test, suite := strings.Cut(name, "::"); suite {
				material := os.Getenv("SANDBOXD_CONFORMANCE")
				if material == "" {
					continue // it is somebody else's, and needn't be here
				}
				if !strings.Contains(source(filepath.Join(material, "opensandbox", file)), "\ndef "+test+"(") {
					t.Errorf("class %d: the suite has no %s", class.number, name)
				}
				continue
			}
			folder, test := "execd/opensandbox", name
			if at := strings.LastIndex(name, "."); at >= 0 {
				folder, test = name[:at], name[at+1:]
			}
			if !strings.Contains(source(filepath.Join("..", "..", folder, "*_test.go")), "\nfunc "+test+"(") {
				t.Errorf("class %d: there is no test %s in %s", class.number, test, folder)
			}
			ours = true
		}
		if !ours {
			t.Errorf("class %d, %s: no test of ours holds it", class.number, class.what)
		}
	}
}
