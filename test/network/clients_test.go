package network

import (
	"fmt"
	"regexp"
	"testing"
)

// client is one command of a real client, and what it says when nothing is in its way.
type client struct {
	name    string
	command []string
	says    string // a regular expression on both outputs and the exit status
}

func shell(script string) []string { return []string{"sh", "-c", script} }

const (
	pythonRequests = `import requests,sys; print(requests.get(sys.argv[1], timeout=20).text)`
	pythonUrllib   = `import urllib.request,sys,ssl,os; print(urllib.request.urlopen(sys.argv[1], timeout=20).read().decode())`
	nodeFetch      = `fetch(process.argv[1]).then(r => r.text()).then(console.log, e => { console.log(e.cause ? e.cause.code : e); process.exit(1) })`
)

// clients reach what a policy of [allowed] lets them.
var clients = []client{
	{"curl over TLS", shell(`curl -sS --cacert $CA https://a.example.net/x`), `^a\.example\.net host=a\.example\.net sni=a\.example\.net HTTP/2\.0 /x exit 0$`},
	{"curl, HTTP/1.1", shell(`curl -sS --http1.1 --cacert $CA https://b.example.net/x`), `host=b\.example\.net sni=b\.example\.net HTTP/1\.1 /x exit 0$`},
	{"curl, plain", shell(`curl -sS http://a.example.net/x`), `host=a\.example\.net sni=- HTTP/1\.1 /x exit 0$`},
	{"curl to a server of HTTP/2 alone", shell(`curl -sS --cacert $CA https://h2.example.net/x`), `sni=h2\.example\.net HTTP/2\.0 /x exit 0$`},
	{"curl to IPv6 only", shell(`curl -sS --cacert $CA https://six.example.net/x`), `sni=six\.example\.net HTTP/2\.0 /x exit 0$`},
	{"curl to both families", shell(`curl -sS --cacert $CA https://both.example.net/x`), `sni=both\.example\.net HTTP/2\.0 /x exit 0$`},
	{"curl, much", shell(`curl -sS --cacert $CA https://big.example.net/big | wc -c`), `^33554432 exit 0$`},
	{"curl, much the other way", shell(`head -c 8000000 /dev/zero | curl -sS --cacert $CA --data-binary @- https://big.example.net/count`), `^8000000 <nil> exit 0$`},
	{"curl follows a redirect that is allowed", shell(`curl -sSL --cacert $CA https://redirect.example.net/to-a`), `host=a\.example\.net .* /redirected exit 0$`},
	{"python requests", []string{"/usr/bin/python3", "-c", pythonRequests, "https://a.example.net/x"}, `sni=a\.example\.net HTTP/1\.1 /x exit 0$`},
	{"python urllib", []string{"/usr/bin/python3", "-c", pythonUrllib, "https://a.example.net/x"}, `sni=a\.example\.net HTTP/1\.1 /x exit 0$`},
	{"node fetch", []string{"node", "-e", nodeFetch, "https://a.example.net/x"}, `sni=a\.example\.net HTTP/1\.1 /x exit 0$`},
	{"Go", shell(goClient + `=1 $GO_CLIENT get https://a.example.net/x`), `sni=a\.example\.net HTTP/2\.0 /x exit 0$`},
	{"openssl s_client", shell(`printf 'GET /x HTTP/1.0\r\nHost: a.example.net\r\n\r\n' | openssl s_client -quiet -ign_eof -verify_return_error -CAfile $CA -connect a.example.net:443 -servername a.example.net 2>/dev/null`),
		`sni=a\.example\.net HTTP/1\.0 /x exit 0$`},
	{"git over https", shell(`git -c http.sslCAInfo=$CA clone -q https://git.example.net/project.git && cat project/README`), `^a project exit 0$`},
	{"psql", shell(`psql -X -h db.example.net -U nobody -d nothing -tA -c 'select 1'`), `^select 1 exit 0$`},
	{"a server that speaks first", shell(goClient + `=1 $GO_CLIENT dial tcp lines.example.net:7000`), `^hello`},
	{"dig", shell(`dig +short a.example.net`), `^(45\.9\.1\.1|198\.18\.\d+\.\d+) exit 0$`},
	{"dig over TCP", shell(`dig +tcp +short a.example.net`), `^(45\.9\.1\.1|198\.18\.\d+\.\d+) exit 0$`},
}

// Without this a refusal inside of a sandbox proves nothing: the network might be broken.
func TestClientsWithNothingInTheWay(t *testing.T) {
	w := New(t)
	for _, client := range clients {
		t.Run(client.name, func(t *testing.T) {
			if got := (place{w: w}).run(t, client.command...); !regexp.MustCompile(client.says).MatchString(got) {
				t.Errorf("%s\nsays %s\nwant %s", client.command, got, client.says)
			}
		})
	}
}

// refusedClients are the same programs where they may not go: none waits for a time-out, and each is told in its own words. By a name there is nothing to
// connect to, by an address the connection is refused.
var refusedClients = []row{
	{"curl", "a name", elsewhere, shell(`curl -sS https://a.example.net/x`), notKnown, notAllowed, nil},
	{"curl", "an address", elsewhere, shell(`curl -sS -k https://45.9.1.1/x`), `Failed to connect.* exit 7$`, notDialled(443), nil},
	{"python requests", "a name", elsewhere, []string{"/usr/bin/python3", "-c", pythonRequests, "https://a.example.net/x"}, `(?s)requests\.exceptions\.ConnectionError: .*Name or service not known.* exit 1$`, notAllowed, nil},
	{"python requests", "an address", elsewhere, []string{"/usr/bin/python3", "-c", pythonRequests, "https://45.9.1.1/x"}, `(?s)requests\.exceptions\.(ConnectionError|SSLError).* exit 1$`, notDialled(443), nil},
	{"python urllib", "a name", elsewhere, []string{"/usr/bin/python3", "-c", pythonUrllib, "https://a.example.net/x"}, `(?s)socket\.gaierror: \[Errno -2\].* exit 1$`, notAllowed, nil},
	{"node fetch", "a name", elsewhere, []string{"node", "-e", nodeFetch, "https://a.example.net/x"}, `^ENOTFOUND exit 1$`, notAllowed, nil},
	{"node fetch", "an address", elsewhere, []string{"node", "-e", nodeFetch, "https://45.9.1.1/x"}, `^ECONNREFUSED exit 1$`, notDialled(443), nil},
	{"Go", "a name", elsewhere, shell(goClient + `=1 $GO_CLIENT get https://a.example.net/x`), `no such host exit 1$`, notAllowed, nil},
	{"Go", "an address", elsewhere, shell(goClient + `=1 $GO_CLIENT get https://45.9.1.1/x`), `connection refused exit 1$`, notDialled(443), nil},
	{"openssl s_client", "a name", elsewhere, shell(`echo | openssl s_client -connect a.example.net:443 2>&1`), `(?s)Name or service not known.* exit 1$`, notAllowed, nil},
	{"openssl s_client", "an address", elsewhere, shell(`echo | openssl s_client -connect 45.9.1.1:443 2>&1`), `(?s)Connection refused.* exit 1$`, notDialled(443), nil},
	{"git over https", "a name", elsewhere, shell(`git clone -q https://a.example.net/project.git`), `(?s)Could not resolve host.* exit 128$`, notAllowed, nil},
	{"git over https", "an address", elsewhere, shell(`git clone -q https://45.9.1.1/project.git`), `(?s)fatal: unable to access.* exit 128$`, notDialled(443), nil},
	{"psql", "a name", elsewhere, shell(`psql -X -h a.example.net -U nobody -d nothing -tA -c 'select 1'`), `(?s)could not translate host name.* exit 2$`, notAllowed, nil},
	{"psql", "an address", elsewhere, shell(`psql -X -h 45.9.1.1 -U nobody -d nothing -tA -c 'select 1'`), `(?s)Connection refused.* exit 2$`, notDialled(5432), nil},
	{"psql", "a port that isn't listed", "allow db.example.net 443", shell(`psql -X -h db.example.net -U nobody -d nothing -tA -c 'select 1'`), `(?s)(reset by peer|closed the connection|Broken pipe).* exit 2$`,
		`relay: denied db.example.net: no rule allows it (rule -1)`, nil},
	{"a server that speaks first", "an address", elsewhere, shell(goClient + `=1 $GO_CLIENT dial tcp 45.9.1.3:7000`), `connection refused exit 1$`, `relay: denied 45.9.1.3:7000: no rule allows it (rule -1)`, nil},
	{"dig", "a name", elsewhere, shell(`dig +noall +comments a.example.net`), `status: NXDOMAIN`, notAllowed, nil},
	{"dig over TCP", "a name", elsewhere, shell(`dig +tcp +noall +comments a.example.net`), `status: NXDOMAIN`, notAllowed, nil},
}

const (
	elsewhere  = "allow b.example.net 443"
	notAllowed = `names: a.example.net A: no rule allows it (rule -1)`
)

func notDialled(port int) string {
	return fmt.Sprintf("relay: denied %s:%d: no rule allows it (rule -1)", Shared, port)
}

func TestRefusedClients(t *testing.T) { behindTheFence(t, refusedClients) }

func TestRefusedClientsInASandbox(t *testing.T) { inASandbox(t, refusedClients) }
