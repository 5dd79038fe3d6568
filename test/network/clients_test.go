package network

import (
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
