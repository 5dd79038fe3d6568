package agentsandbox

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"net/http"
	"net/netip"
	"os"
	"strings"

	"github.com/sandboxd/sandboxd/execd"
	"github.com/sandboxd/sandboxd/policy"
)

// Via is the [policy.Caller].Via of whoever comes by this façade.
const Via = "agent-sandbox"

// Access says who may ask. What is given must all hold: the token of a request, and the address that its connection comes from. The clients of
// agent-sandbox send no token with gRPC, and its router takes it away: there the address is what says who may.
type Access struct {
	token  [sha256.Size]byte
	hasKey bool
	// Peers are the addresses that may connect; none: whichever.
	Peers []netip.Prefix
	// Insecure takes whoever comes, in place of both.
	Insecure bool
}

// mostToken is how long a file with a token may be.
const mostToken = 4097

// ReadToken takes the token that requests must have in Authorization: Bearer, from a file of ours that nobody else may read.
func (a *Access) ReadToken(path string) error {
	data, _, err := execd.ReadSecret(path, mostToken)
	if err != nil {
		return err
	}
	text := strings.TrimSuffix(string(data), "\n")
	if err := execd.CheckSecret([]byte(text)); err != nil {
		return err
	}
	a.token, a.hasKey = sha256.Sum256([]byte(text)), true
	return nil
}

func (a Access) validate() error {
	if some := a.hasKey || len(a.Peers) > 0; some == a.Insecure {
		return errors.New("agent-sandbox: Access: want a token or the addresses of peers, or Insecure without both")
	}
	return nil
}

// admit says who asks, or that it may not.
func (a Access) admit(r *http.Request) (policy.Caller, error) {
	caller := policy.Caller{UID: os.Geteuid(), GID: os.Getegid(), Via: Via}
	if len(a.Peers) > 0 && !a.isPeer(r.RemoteAddr) {
		return caller, faultf(http.StatusForbidden, codeForbidden, "connections from this address aren't taken; serve --agent-sandbox-peer names those that are")
	}
	if a.hasKey {
		text, bearer := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		digest := sha256.Sum256([]byte(text))
		if subtle.ConstantTimeCompare(digest[:], a.token[:]) != 1 || !bearer || len(r.Header.Values("Authorization")) != 1 {
			return caller, faultf(http.StatusUnauthorized, codeUnauthenticated, "this server wants its token: Authorization: Bearer TOKEN")
		}
	}
	return caller, nil
}

func (a Access) isPeer(remote string) bool {
	at, err := netip.ParseAddrPort(remote)
	if err != nil {
		return false
	}
	for _, peers := range a.Peers {
		if peers.Contains(at.Addr().Unmap().WithZone("")) {
			return true
		}
	}
	return false
}
