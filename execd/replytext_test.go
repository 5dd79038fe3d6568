package execd

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestReplyText: piece by piece a reply is the same JSON as at once, wherever a piece ends, and whatever the output looks like.
func TestReplyText(t *testing.T) {
	long := strings.Repeat("é", quoteBytes)
	outputs := rapid.OneOf(
		rapid.SampledFrom([]string{"", `"stderr":""`, `","stdout":"`, long, "x" + long, "xx" + long + "\x00", strings.Repeat("\U0001F600", quoteBytes), strings.Repeat("\x01", quoteBytes+1)}),
		rapid.String(),
	)
	rapid.Check(t, func(t *rapid.T) {
		var reply Reply
		for _, to := range []struct {
			text **string
			raw  *[]byte
		}{{&reply.Stdout, &reply.StdoutBase64}, {&reply.Stderr, &reply.StderrBase64}} {
			switch rapid.IntRange(0, 2).Draw(t, "kind") {
			case 0:
				text := outputs.Draw(t, "text")
				*to.text = &text
			case 1:
				*to.raw = append(rapid.SliceOf(rapid.Byte()).Draw(t, "raw"), 0xff)
			}
		}
		reply.Message = outputs.Draw(t, "message")
		want, err := reply.Encode()
		if err != nil {
			t.Fatal(err)
		}
		text, err := newReplyText(reply)
		if err != nil {
			t.Fatal(err)
		}
		var got strings.Builder
		if err := text.pieces(func(piece []byte) error { got.Write(piece); return nil }); err != nil || text.size() != int64(got.Len()) {
			t.Fatalf("%d bytes, %d were said: %v", got.Len(), text.size(), err)
		}
		if got.String() != string(want)+"\n" {
			t.Fatalf("%.300q\nwant\n%.300q", got.String(), want)
		}
	})
}
