package audit

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
	"golang.org/x/sys/unix"
)

// A checkpoint is a signed note (golang.org/x/mod/sumdb/note) on all records before it, and is a record of the log itself:
//
//	sandboxd.audit.1f0c…       the name of the key, and so of the log
//	17                         how many records
//	q2dhXg5…=                  the root of their Merkle tree
//	2026-12-01T09:30:00.…Z     when
//
//	— sandboxd.audit.1f0c… …
//
// Who keeps one elsewhere can tell a log that was cut back or written anew behind it ([Verification].Witness).

// Checkpoint is the member of a checkpoint's record.
type Checkpoint struct {
	// Note is the signed note, as above.
	Note string `json:"note"`
	// Subtrees are the digests of the tree's full subtrees, the smallest first: what opening the log needs in place of all that is before.
	Subtrees []tlog.Hash `json:"subtrees"`
}

const (
	keyFile       = "checkpoint.key" // in the log's directory, mode 0600
	publicFile    = "checkpoint.pub"
	keyNamePrefix = "sandboxd.audit."
	noteTime      = "2006-01-02T15:04:05.000000000Z"
)

// signed is what a checkpoint says.
type signed struct {
	origin string
	size   int64
	root   tlog.Hash
	at     time.Time
}

func (s signed) text() string {
	return fmt.Sprintf("%s\n%d\n%s\n%s\n", s.origin, s.size, base64.StdEncoding.EncodeToString(s.root[:]), s.at.UTC().Format(noteTime))
}

// openCheckpoint checks a note's signature and reads it.
func openCheckpoint(text string, key note.Verifier) (signed, error) {
	opened, err := note.Open([]byte(text), note.VerifierList(key))
	if err != nil {
		return signed{}, fmt.Errorf("not signed by %s: %w", key.Name(), err)
	}
	var s signed
	lines := strings.Split(opened.Text, "\n")
	if len(lines) != 5 || lines[0] != key.Name() || lines[4] != "" {
		return s, errors.New("signed, and not a checkpoint of this log")
	}
	size, err := strconv.ParseInt(lines[1], 10, 64)
	root, rootErr := base64.StdEncoding.DecodeString(lines[2])
	at, atErr := time.Parse(noteTime, lines[3])
	if err := errors.Join(err, rootErr, atErr); err != nil || len(root) != tlog.HashSize {
		return s, fmt.Errorf("signed, and not a checkpoint: %w", err)
	}
	s = signed{origin: lines[0], size: size, root: tlog.Hash(root), at: at}
	if s.text() != opened.Text {
		return s, errors.New("signed, and not a checkpoint as we write it")
	}
	return s, nil
}

// NoteOf is the signed note of a checkpoint's record, as the log has it.
func NoteOf(line []byte) (string, error) {
	e, err := parseLine(bytes.TrimSpace(line))
	if err != nil {
		return "", err
	}
	if e.Checkpoint == nil {
		return "", fmt.Errorf("a record of type %q, no checkpoint", e.Type)
	}
	return e.Checkpoint.Note, nil
}

// Key signs the checkpoints of a log.
type Key struct {
	signer note.Signer
	// Public is the public key in the form that [ParsePublicKey] takes.
	Public string
	public note.Verifier
}

// ParsePublicKey reads NAME+ID+BASE64, as checkpoint.pub and status have it.
func ParsePublicKey(text string) (note.Verifier, error) {
	key, err := note.NewVerifier(strings.TrimSpace(text))
	if err != nil {
		return nil, fmt.Errorf("audit: public key: %w; want one as checkpoint.pub has it", err)
	}
	return key, nil
}

// ParseKey reads a private key as [Open] writes it to checkpoint.key.
func ParseKey(text string) (*Key, error) {
	text = strings.TrimSpace(text)
	signer, err := note.NewSigner(text)
	if err != nil {
		return nil, fmt.Errorf("audit: private key: %w; want PRIVATE+KEY+NAME+ID+BASE64, as checkpoint.key has it", err)
	}
	if !strings.HasPrefix(signer.Name(), keyNamePrefix) {
		return nil, fmt.Errorf("audit: private key of the name %q: want one that begins with %q, so that it signs nothing else", signer.Name(), keyNamePrefix)
	}
	public, err := publicOf(text)
	if err != nil {
		return nil, err
	}
	verifier, err := note.NewVerifier(public)
	if err != nil {
		return nil, fmt.Errorf("audit: private key: %w", err)
	}
	return &Key{signer, public, verifier}, nil
}

// GenerateKey makes a private key.
func GenerateKey() (string, error) {
	var id [8]byte
	rand.Read(id[:])
	private, _, err := note.GenerateKey(rand.Reader, keyNamePrefix+hex.EncodeToString(id[:]))
	return private, err
}

// keyOf takes the key of a log's directory, made when there is none. The file is for those who hold the log anyway: it vouches against whoever gets at the
// log later, or elsewhere, and not against who can read it.
func keyOf(dir string) (*Key, error) {
	path := filepath.Join(dir, keyFile)
	data, err := readPrivate(path)
	if errors.Is(err, fs.ErrNotExist) {
		private, err := GenerateKey()
		if err != nil {
			return nil, err
		}
		if err := writeNew(path, private+"\n", 0o600); err != nil {
			return nil, err
		}
		return ParseKey(private)
	}
	if err != nil {
		return nil, err
	}
	return ParseKey(string(data))
}

// publish puts the public key beside the log. One that is there and is another's is an error: the log changes its key in a new directory only.
func (k *Key) publish(dir string) error {
	path := filepath.Join(dir, publicFile)
	data, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return writeNew(path, k.Public+"\n", 0o644)
	case err != nil:
		return err
	case strings.TrimSpace(string(data)) != k.Public:
		return fmt.Errorf("%s: the log was begun with another key, %.60q; a log has one key: give that one, or another directory", path, strings.TrimSpace(string(data)))
	}
	return nil
}

// readPrivate reads a file that is ours alone.
func readPrivate(path string) ([]byte, error) {
	file, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Mode().Perm()&0o077 != 0 || info.Size() > 4096 {
		return nil, fmt.Errorf("%s: mode %s, %d bytes; want a file of a key, mode 0600 or 0400", path, info.Mode(), info.Size())
	}
	return os.ReadFile(path)
}

// writeNew makes a file whole, or none: a crash in between leaves another name.
func writeNew(path, text string, mode os.FileMode) error {
	file, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return err
	}
	_, err = file.WriteString(text)
	if err = errors.Join(err, file.Chmod(mode), file.Sync(), file.Close()); err == nil {
		if err = os.Rename(file.Name(), path); err == nil {
			return syncDir(filepath.Dir(path))
		}
	}
	return errors.Join(err, os.Remove(file.Name()))
}

// publicOf is the public key of a private one.
func publicOf(private string) (string, error) {
	parts := strings.SplitN(private, "+", 5) // PRIVATE KEY NAME ID BASE64
	if len(parts) != 5 {
		return "", errors.New("audit: private key: want PRIVATE+KEY+NAME+ID+BASE64")
	}
	raw, err := base64.StdEncoding.DecodeString(parts[4])
	if err != nil || len(raw) != 1+32 {
		return "", errors.New("audit: private key: want an Ed25519 seed")
	}
	return note.NewEd25519VerifierKey(parts[2], publicOfSeed(raw[1:]))
}

func publicOfSeed(seed []byte) ed25519.PublicKey {
	public, _ := ed25519.NewKeyFromSeed(seed).Public().(ed25519.PublicKey)
	return public
}
