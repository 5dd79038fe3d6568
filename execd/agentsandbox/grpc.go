package agentsandbox

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/sandboxd/sandboxd/execd"
)

// mostMessage is the longest message that a client of gRPC takes unless it is told otherwise, and the longest that is taken here.
const mostMessage = 4 << 20

// serveGRPC answers one call: gRPC over HTTP/2, as its PROTOCOL-HTTP2 has it. A message is a byte that says whether it is compressed, its length in four
// bytes, big endian, and itself; how the call ended is in the trailers.
func (f *Facade) serveGRPC(x *exchange) error {
	if x.r.Method != http.MethodPost {
		return faultf(http.StatusMethodNotAllowed, codeUnimplemented, "gRPC is POST")
	}
	call, ok := strings.CutPrefix(x.r.URL.Path, "/process.v1.ProcessService/")
	handle := map[string]func(*exchange, []byte) error{
		"Execute": f.execute, "Start": f.start, "WriteStdin": f.writeStdin, "SendSignal": f.sendSignal, "ResizeTTY": f.resizeTTY,
	}[call]
	if !ok || handle == nil {
		return faultf(http.StatusNotFound, codeUnimplemented, "there is no %.200s here; process.v1.ProcessService is", x.r.URL.Path)
	}
	if kind := x.r.Header.Get("Content-Type"); kind != "application/grpc" && kind != "application/grpc+proto" {
		return faultf(http.StatusUnsupportedMediaType, codeUnimplemented, "%.100q: messages are protobuf's here", kind)
	}
	message, err := x.message()
	if err != nil {
		return err
	}
	if err := handle(x, message); err != nil {
		endGRPC(x.w, asFault(err)) // also behind what has been sent: that is what trailers are for
		return nil
	}
	endGRPC(x.w, nil)
	return nil
}

// message reads the one message of a call, and that there is no other.
func (x *exchange) message() ([]byte, error) {
	connection := http.NewResponseController(x.w)
	_ = connection.SetReadDeadline(time.Now().Add(x.facade.config.BodyTimeout))
	defer func() { _ = connection.SetReadDeadline(time.Time{}) }()
	var head [5]byte
	if _, err := io.ReadFull(x.r.Body, head[:]); err != nil {
		return nil, faultf(http.StatusBadRequest, codeArgument, "the message didn't arrive whole: %v", err)
	}
	size := binary.BigEndian.Uint32(head[1:])
	switch {
	case head[0] != 0:
		return nil, faultf(http.StatusBadRequest, codeUnimplemented, "compressed messages aren't taken")
	case int64(size) > min(mostMessage, x.facade.config.BodyBytes):
		return nil, faultf(http.StatusRequestEntityTooLarge, codeExhausted, "a message of %d bytes: at most %d", size, min(mostMessage, x.facade.config.BodyBytes))
	}
	message := make([]byte, size)
	if _, err := io.ReadFull(x.r.Body, message); err != nil {
		return nil, faultf(http.StatusBadRequest, codeArgument, "the message didn't arrive whole: %v", err)
	}
	if n, err := x.r.Body.Read(head[:1]); n > 0 || !errors.Is(err, io.EOF) {
		return nil, faultf(http.StatusBadRequest, codeArgument, "more than one message")
	}
	return message, nil
}

// timeout is how long the client waits for a call; 0: it doesn't say.
func (x *exchange) timeout() (time.Duration, error) {
	text := x.r.Header.Get("Grpc-Timeout")
	if text == "" {
		return 0, nil
	}
	unit := map[byte]time.Duration{
		'H': time.Hour, 'M': time.Minute, 'S': time.Second, 'm': time.Millisecond, 'u': time.Microsecond, 'n': time.Nanosecond,
	}[text[len(text)-1]]
	count, err := strconv.ParseUint(text[:len(text)-1], 10, 32) // eight digits at most
	if err != nil || unit == 0 || len(text) > 9 {
		return 0, faultf(http.StatusBadRequest, codeArgument, "grpc-timeout: %.40q isn't one", text)
	}
	if limit := x.facade.config.LongestCommand; count > uint64(limit/unit) {
		return limit, nil
	}
	return max(time.Duration(count)*unit, time.Millisecond), nil
}

// beginGRPC sends the header of an answer.
func beginGRPC(w *execd.BegunWriter) {
	if !w.Begun {
		w.Header().Set("Content-Type", "application/grpc")
		w.WriteHeader(http.StatusOK)
	}
}

// send sends a message. The bound is that of a client that takes nothing.
func (x *exchange) send(message []byte) error {
	connection := http.NewResponseController(x.w)
	_ = connection.SetWriteDeadline(time.Now().Add(x.facade.config.StallTimeout))
	beginGRPC(x.w)
	framed := binary.BigEndian.AppendUint32(make([]byte, 1, 5+len(message)), uint32(len(message)))
	if _, err := x.w.Write(append(framed, message...)); err != nil {
		return err
	}
	return connection.Flush()
}

// endGRPC says how a call ended: nil is well.
func endGRPC(w *execd.BegunWriter, no *fault) {
	number, message := 0, ""
	if no != nil {
		number, message = grpcNumbers[no.Code], no.Message
	}
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(10 * time.Second)) // the last of it
	beginGRPC(w)
	w.Header().Set(http.TrailerPrefix+"Grpc-Status", strconv.Itoa(number))
	if message != "" {
		w.Header().Set(http.TrailerPrefix+"Grpc-Message", escapeMessage(message))
	}
}

// escapeMessage writes a text as a trailer has it: what isn't printable ASCII as percent and two digits, of each byte.
func escapeMessage(message string) string {
	const most = 4096
	var text strings.Builder
	for _, c := range []byte(message) {
		if text.Len() >= most {
			break
		}
		if c < ' ' || c > '~' || c == '%' {
			fmt.Fprintf(&text, "%%%02X", c)
		} else {
			text.WriteByte(c)
		}
	}
	return text.String()
}
