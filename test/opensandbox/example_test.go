package opensandbox

import (
	"encoding/json/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/test/kerneltest"
)

// TestExample runs the example's Dag as its README says: once with what it asks for, once with a host that the server's policy doesn't list.
func TestExample(t *testing.T) {
	kerneltest.Require(t, kerneltest.Root)
	python := os.Getenv("SANDBOXD_SUITE_AIRFLOW")
	if python == "" {
		t.Skip("SANDBOXD_SUITE_AIRFLOW names no interpreter that has Airflow; test/opensandbox.sh does")
	}
	d := start(t, closedPolicy(t))
	reachable(t)
	dags, err := filepath.Abs("../../examples/airflow/dags")
	if err != nil {
		t.Fatal(err)
	}
	host, port, _ := net.SplitHostPort(d.address)
	connection, err := json.Marshal(map[string]any{"conn_type": "generic", "host": host, "port": port, "schema": "http", "password": d.key})
	if err != nil {
		t.Fatal(err)
	}
	home := t.TempDir()
	env := d.variables("AIRFLOW_HOME="+home, "AIRFLOW__CORE__DAGS_FOLDER="+dags, "AIRFLOW__CORE__LOAD_EXAMPLES=False",
		"AIRFLOW_CONN_OPENSANDBOX_DEFAULT="+string(connection))
	airflow := func(args ...string) (string, error) {
		return d.run(t, home, env, filepath.Join(filepath.Dir(python), "airflow"), args...)
	}
	if said, err := airflow("db", "migrate"); err != nil {
		t.Fatalf("airflow db migrate: %v\n%s", err, said)
	}

	report := filepath.Join(home, "report.json")
	probe := net.JoinHostPort(deniedHost.String(), "80")
	said, err := airflow("dags", "test", "sandboxd_report", "--conf", `{"report_uri": "file://`+report+`", "probe": "`+probe+`"}`)
	if err != nil {
		t.Fatalf("airflow dags test: %v\n%s\n\ndaemon:\n%s", err, said, tail(d.log.String()))
	}
	for path, want := range map[string]string{
		report:              `{"totals": {"NZ": 15.5, "DE": 7.25}, "network": "refused: Permission denied"}`,
		report + ".summary": "DE NZ\n",
	} {
		if got, err := os.ReadFile(path); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v; want %q\n%s", path, got, err, want, said)
		}
	}

	said, err = airflow("dags", "test", "sandboxd_report", "--conf", `{"report_uri": "file://`+report+`.denied", "allow": ["`+deniedHost.String()+`"]}`)
	if err == nil || !strings.Contains(said, "state=failed") {
		t.Errorf("a Dag whose sandbox is denied: %v\n%s", err, said)
	}
	const reason = "[SANDBOX::POLICY_DENIED] network.egress: Egress may only be allowed to these targets"
	if !strings.Contains(said, reason) {
		t.Errorf("the log of the task has no %q\n%s", reason, said)
	}
	if _, err := os.Stat(report + ".denied"); err == nil {
		t.Error("the Dag whose sandbox is denied has made a report")
	}
	if strings.Contains(said, d.key) {
		t.Error("the key is in the log of a task")
	}
	d.keepsSecrets(t)
}
