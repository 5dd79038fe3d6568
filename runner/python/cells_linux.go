package python

import (
	_ "embed"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

//go:embed cells.py
var cellsDriver string

// Cells is our end of an interpreter that runs one cell of code after another and keeps what each has left.
//
// The channel is a socket, so that the kernel says of each packet who has sent it: what another process says than the interpreter itself, a child that it
// has forked for one, is nobody's. A socket can't be opened by its name in /proc either. Code in the interpreter itself may write to it: in the name of its
// own context, to which all that it says is attributed anyway.
type Cells struct {
	// Argv starts the interpreter, and Extra are its descriptors from extraFrom on, for the caller to close once the child has them.
	Argv  []string
	Extra []*os.File
	conn  *net.UnixConn
	// begun is what has come of a frame whose end hasn't.
	begun Frame
	left  bool
	piece []byte
}

// Frame is one thing that an interpreter says.
type Frame struct {
	Kind FrameKind
	// Cell is the number of the cell that it is about, as the interpreter says.
	Cell uint64
	Data []byte
	// Cut says that there was more than [MostFrame], of which nothing is kept.
	Cut bool
}

// FrameKind is what a frame is about.
type FrameKind byte

// The kinds of frames. What has another is none.
const (
	FrameReady  FrameKind = 'w' // it waits for the first cell
	FrameResult FrameKind = 'r' // a JSON object: texts by media type
	FrameError  FrameKind = 'e' // a JSON object: ename, evalue, traceback
	FrameDone   FrameKind = 'd' // the cell has ended

	frameCode        FrameKind = 'c'
	frameAcknowledge FrameKind = 'a'
)

// The bounds of frames: of one, and of a packet, which its header is part of.
const (
	MostFrame  = 4 << 20
	mostPiece  = 32 << 10
	cellHeader = 10
)

// NewCells makes an invocation and the channel.
func NewCells(extraFrom int) (_ *Cells, err error) {
	c := &Cells{piece: make([]byte, mostPiece+cellHeader+1)}
	defer func() {
		if err != nil {
			c.Close()
		}
	}()
	source, err := Sealed("driver", cellsDriver)
	if err != nil {
		return nil, err
	}
	c.Extra = append(c.Extra, source)
	ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("socketpair: %w", err)
	}
	ours := os.NewFile(uintptr(ends[0]), "channel")
	defer ours.Close() // FileConn has a copy
	c.Extra = append(c.Extra, os.NewFile(uintptr(ends[1]), "channel"))
	if err := unix.SetsockoptInt(ends[0], unix.SOL_SOCKET, unix.SO_PASSCRED, 1); err != nil {
		return nil, fmt.Errorf("setsockopt SO_PASSCRED: %w", err)
	}
	conn, err := net.FileConn(ours)
	if err != nil {
		return nil, err
	}
	c.conn = conn.(*net.UnixConn)
	c.Argv = []string{"python3", "-I", "-u", "-X", "utf8", "-c", fmt.Sprintf(bootstrap, extraFrom, len(cellsDriver), 0), strconv.Itoa(extraFrom + 1)}
	return c, nil
}

// Close closes all of it. Who waits for a frame, or for one to be taken, gets an error.
func (c *Cells) Close() {
	for _, file := range c.Extra {
		file.Close()
	}
	if c.conn != nil {
		c.conn.Close()
	}
}

// Until bounds the wait for frames, and for the taking of code; zero: no bound.
func (c *Cells) Until(at time.Time) { _ = c.conn.SetDeadline(at) } // a socket has deadlines

// Send hands over the code of a cell. It returns when the interpreter has taken most of it, or can't any more.
func (c *Cells) Send(cell uint64, code string) error {
	packet := make([]byte, 0, mostPiece+cellHeader)
	for more := true; more; {
		piece := code[:min(len(code), mostPiece)]
		code = code[len(piece):]
		more = len(code) > 0
		packet = binary.BigEndian.AppendUint64(append(packet[:0], byte(frameCode)), cell)
		packet = append(packet, 0)
		if more {
			packet[cellHeader-1] = 1
		}
		if _, err := c.conn.Write(append(packet, piece...)); err != nil {
			return err
		}
	}
	return nil
}

// Acknowledge says that a result was taken. The interpreter waits for that after each, so that what it writes afterwards comes afterwards.
func (c *Cells) Acknowledge(cell uint64) error {
	packet := append(binary.BigEndian.AppendUint64([]byte{byte(frameAcknowledge)}, cell), 0)
	_, err := c.conn.Write(packet)
	return err
}

// Next waits for the next frame that the process pid has sent. What comes of it is the interpreter's word: nothing else is known of it but its kind and
// that it is no longer than [MostFrame].
func (c *Cells) Next(pid int) (Frame, error) {
	for {
		packet, err := c.receive(pid)
		if err != nil {
			return Frame{}, err
		}
		if packet == nil {
			continue
		}
		kind, cell, more := FrameKind(packet[0]), binary.BigEndian.Uint64(packet[1:]), packet[cellHeader-1] != 0
		if !c.left || c.begun.Kind != kind || c.begun.Cell != cell {
			c.begun = Frame{Kind: kind, Cell: cell}
		}
		if len(c.begun.Data)+len(packet)-cellHeader > MostFrame {
			c.begun.Data, c.begun.Cut = nil, true
		}
		if !c.begun.Cut {
			c.begun.Data = append(c.begun.Data, packet[cellHeader:]...)
		}
		if c.left = more; !more {
			whole := c.begun
			c.begun = Frame{}
			return whole, nil
		}
	}
}

// errChannel says that nothing more comes.
var errChannel = errors.New("the interpreter has closed its channel")

// receive takes one packet; nil where it isn't the process's own, or no packet of ours. There is room for the sender's credentials only: descriptors that
// somebody sends along are closed by the kernel.
func (c *Cells) receive(pid int) ([]byte, error) {
	var control [unix.SizeofCmsghdr + unix.SizeofUcred + 4]byte
	n, controlled, flags, _, err := c.conn.ReadMsgUnix(c.piece, control[:])
	switch {
	case err != nil:
		return nil, err
	case n == 0 && controlled == 0:
		return nil, errChannel
	case n < cellHeader || flags&unix.MSG_TRUNC != 0:
		return nil, nil
	}
	messages, err := unix.ParseSocketControlMessage(control[:controlled])
	if err != nil {
		return nil, fmt.Errorf("channel: %w", err)
	}
	for _, message := range messages {
		if sender, err := unix.ParseUnixCredentials(&message); err == nil && int(sender.Pid) == pid {
			return c.piece[:n], nil
		}
	}
	return nil, nil
}
