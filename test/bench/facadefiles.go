package main

import (
	"bytes"
	"encoding/json/v2"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"
)

// contentRows uploads a file and downloads it again: what that takes of the daemon's memory, and how fast it is beside a copy to memory by cp(1).
func contentRows(b *bench, f *facade, quick bool) error {
	size := int64(1 << 30)
	if quick {
		size = 64 << 20
	}
	box, err := f.create()
	if err != nil {
		return err
	}
	local := filepath.Join(b.memory, "content")
	if err := fill(local, size); err != nil {
		return err
	}
	copied := local + ".copy"
	plain, err := timed(exec.Command("cp", local, copied).Run)
	if err == nil {
		err = os.Remove(copied)
	}
	if err != nil {
		return err
	}
	for _, way := range []struct {
		name string
		move func(local, path string, size int64) error
	}{{"upload", box.upload}, {"download", box.download}} {
		before, err := statusNumber(f.proc, "RssAnon:")
		if err != nil {
			return err
		}
		stop, most := watch(f.proc)
		took, err := timed(func() error { return way.move(local, "/work/content", size) })
		close(stop)
		grown := max(<-most-before<<10, 0)
		if err != nil {
			return err
		}
		rate := func(d time.Duration) float64 { return float64(size) / 1e6 / d.Seconds() }
		b.add(fmt.Sprintf("OpenSandbox: %s of %d MiB: growth of the daemon's own memory, rate (cp in memory)", way.name, size>>20), "flat",
			fmt.Sprintf("+ %.1f MiB, %.0f MB/s (%.0f MB/s)", float64(grown)/(1<<20), rate(took), rate(plain)), met(float64(grown), 16<<20))
	}
	return box.delete()
}

// fill makes a file that isn't the same everywhere.
func fill(path string, size int64) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	defer file.Close()
	block := make([]byte, 1<<20)
	for i := int64(0); i < size/int64(len(block)); i++ {
		copy(block, strconv.FormatInt(i, 10))
		if _, err := file.Write(block); err != nil {
			return err
		}
	}
	return file.Sync()
}

// upload sends a file in a form of known length, as the Python SDK does through the server's proxy.
func (r *remote) upload(local, path string, size int64) error {
	metadata, err := json.Marshal(map[string]any{"path": path, "mode": 644})
	if err != nil {
		return err
	}
	var head bytes.Buffer
	form := multipart.NewWriter(&head)
	part, err := form.CreateFormFile("metadata", "metadata")
	if err == nil {
		_, err = part.Write(metadata)
	}
	if err == nil {
		_, err = form.CreateFormFile("file", "content")
	}
	if err != nil {
		return err
	}
	tail := "\r\n--" + form.Boundary() + "--\r\n"
	file, err := os.Open(local)
	if err != nil {
		return err
	}
	defer file.Close()
	request, err := http.NewRequest("POST", r.execd+"/files/upload", io.MultiReader(&head, file, bytes.NewReader([]byte(tail))))
	if err != nil {
		return err
	}
	request.ContentLength = int64(head.Len()) + size + int64(len(tail))
	request.Header.Set("Content-Type", form.FormDataContentType())
	request.Header.Set(execdHeader, r.token)
	response, err := r.f.client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = errorOf(response, text)
	}
	return err
}

// download reads the file back, and holds it against the one that was sent.
func (r *remote) download(local, path string, size int64) error {
	response, err := r.f.open("GET", r.execd+"/files/download?path="+url.QueryEscape(path), execdHeader, r.token, nil, "", http.StatusOK)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	file, err := os.Open(local)
	if err != nil {
		return err
	}
	defer file.Close()
	got, want := make([]byte, 1<<20), make([]byte, 1<<20)
	var all int64
	for {
		n, err := io.ReadFull(response.Body, got)
		if _, short := io.ReadFull(file, want[:n]); short != nil || !bytes.Equal(got[:n], want[:n]) {
			return fmt.Errorf("what came back at %d isn't what was sent", all)
		}
		if all += int64(n); err != nil {
			if all != size {
				return fmt.Errorf("%d of %d bytes came back: %w", all, size, err)
			}
			return nil
		}
	}
}
