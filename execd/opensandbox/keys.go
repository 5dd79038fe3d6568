package opensandbox

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"fmt"
	"net/http"
	"os"
	"strings"

	"github.com/sandboxd/sandboxd/execd"
	"github.com/sandboxd/sandboxd/policy"
)

// Via is the [policy.Caller].Via of whoever comes by this façade.
const Via = "opensandbox"

// The headers by which a request shows that it may: the key of an owner, the token of a sandbox's execd and ports, and that of its egress API.
const (
	headerKey    = "Open-Sandbox-Api-Key"
	headerExecd  = "X-Execd-Access-Token"
	headerEgress = "Opensandbox-Egress-Auth"
)

// Key is one owner's. What is compared has one length, whatever a client sends, and the key itself isn't kept.
type Key struct {
	Owner  policy.Caller
	digest [sha256.Size]byte
}

// mostKeys bounds the file of keys: each request is compared with every key.
const (
	mostKeys     = 1024
	mostKeyBytes = 8 << 20
)

// ReadKeys reads a file of ours that nobody else may read or change: one owner a line, a name and a key between which is one space. Names are letters,
// digits, '-', '_' and '.'; two owners have neither name nor key in common.
func ReadKeys(path string) ([]Key, error) {
	data, owner, err := execd.ReadSecret(path, mostKeyBytes)
	if err != nil {
		return nil, fmt.Errorf("key file %s: %w", path, err)
	}
	owner.Via = Via
	var keys []Key
	names, digests := map[string]bool{}, map[[sha256.Size]byte]bool{}
	for i, line := range strings.Split(strings.TrimSuffix(string(data), "\n"), "\n") {
		name, secret, found := strings.Cut(line, " ")
		if err := checkKey(name, secret, found); err != nil {
			return nil, fmt.Errorf("key file %s: line %d: %w", path, i+1, err) // never the line itself
		}
		key := Key{owner, sha256.Sum256([]byte(secret))}
		key.Owner.Name = name
		if names[name] || digests[key.digest] {
			return nil, fmt.Errorf("key file %s: line %d: its name or its key is that of another line", path, i+1)
		}
		names[name], digests[key.digest] = true, true
		keys = append(keys, key)
	}
	if len(keys) > mostKeys {
		return nil, fmt.Errorf("key file %s: %d keys, at most %d", path, len(keys), mostKeys)
	}
	return keys, nil
}

func checkKey(name, secret string, found bool) error {
	bad := strings.IndexFunc(name, func(r rune) bool {
		return r != '-' && r != '_' && r != '.' && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
	})
	if !found || name == "" || len(name) > 64 || bad >= 0 {
		return fmt.Errorf("want the owner's name, a space, and the key: NAME KEY")
	}
	return execd.CheckSecret([]byte(secret))
}

// owner is whose key a request has.
func (c Config) owner(header http.Header) (policy.Caller, error) {
	if c.Insecure {
		return policy.Caller{UID: os.Geteuid(), GID: os.Getegid(), Via: Via}, nil
	}
	values := header.Values(headerKey)
	if len(values) == 0 || len(values) == 1 && values[0] == "" {
		return policy.Caller{}, faultf(http.StatusUnauthorized, "MISSING_API_KEY", "this API wants the header OPEN-SANDBOX-API-KEY")
	}
	// Every key is compared, also after one has matched, so that the time says nothing.
	digest, found := sha256.Sum256([]byte(values[0])), -1
	for i := range c.Keys {
		if subtle.ConstantTimeCompare(digest[:], c.Keys[i].digest[:]) == 1 {
			found = i
		}
	}
	if found < 0 || len(values) > 1 {
		return policy.Caller{}, faultf(http.StatusUnauthorized, "INVALID_API_KEY", "the API key isn't one of this server's")
	}
	return c.Keys[found].Owner, nil
}

// token is one sandbox's, for one of its endpoints.
type token struct {
	text   string
	digest [sha256.Size]byte
}

// newToken is 32 random bytes in hex.
func newToken() token {
	var raw [32]byte
	rand.Read(raw[:])
	text := hex.EncodeToString(raw[:])
	return token{text, sha256.Sum256([]byte(text))}
}

// in compares in a time that depends on neither token.
func (t token) in(header http.Header, name string) bool {
	values := header.Values(name)
	if len(values) != 1 {
		return false
	}
	digest := sha256.Sum256([]byte(values[0]))
	return subtle.ConstantTimeCompare(digest[:], t.digest[:]) == 1
}
