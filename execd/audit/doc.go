// Package audit keeps the record of what sandboxd decided, proved and released.
//
// The log is a directory of files of JSON lines, audit-N.jsonl, where N is the sequence number of the file's first record:
//
//	{"seq":17,"time":"…","prev":"sha256:…","type":"release",…,"hash":"sha256:…"}
//
// prev is the SHA-256 of the line before, without its newline, and 64 zeros in the first record of all; it goes on from file to file. hash is the
// SHA-256 of the line itself as it is without the hash member. So a changed record is named by its own number, and a record that was taken
// out, put in or moved by the number of the next.
//
// One goroutine writes. [Log.Append] returns once the record is on the disk (fdatasync(2)); appenders that wait at the same time share one
// sync. After any error of a write or a sync nothing can be said about what the disk holds, so the log is broken: every append is refused
// until [Log.Reopen] has cut the file back to its last durable record.
//
// The chain says nothing of a tail that was cut off at a record's end, nor of a log that somebody rewrote whole. Checkpoints do ([Checkpoint]): signed notes
// on the root of a Merkle tree over the lines, made at an interval, where a file ends, and when the log is closed. What is behind the last one is unanchored.
package audit
