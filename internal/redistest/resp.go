package redistest

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// readCommand reads one request: its bytes as they came, and its words.
func readCommand(r *bufio.Reader) (frame []byte, args []string, err error) {
	frame, err = r.ReadBytes('\n')
	if err != nil {
		return nil, nil, err
	}
	if frame[0] != '*' { // inline: words on one line
		return frame, strings.Fields(string(frame)), nil
	}
	n, err := length(frame)
	if err != nil {
		return nil, nil, err
	}
	for range n {
		start := len(frame)
		if frame, err = appendReply(frame, r); err != nil {
			return nil, nil, err
		}
		word := frame[start:]
		if word[0] != '$' {
			return nil, nil, fmt.Errorf("request: a word of type %q", word[0])
		}
		head := strings.IndexByte(string(word), '\n') + 1
		args = append(args, string(word[head:len(word)-2]))
	}
	return frame, args, nil
}

// readReply reads one whole value of RESP2 or RESP3, as it came.
func readReply(r *bufio.Reader) ([]byte, error) { return appendReply(nil, r) }

func appendReply(frame []byte, r *bufio.Reader) ([]byte, error) {
	line, err := r.ReadBytes('\n')
	if err != nil {
		return nil, err
	}
	frame = append(frame, line...)
	parts := 0
	switch line[0] {
	case '+', '-', ':', '_', ',', '#', '(': // the line is the value
	case '$', '!', '=': // a length, then bytes and CRLF; -1: null
		n, err := length(line)
		if err != nil || n < 0 {
			return frame, err
		}
		body := make([]byte, n+2)
		if _, err := io.ReadFull(r, body); err != nil {
			return nil, err
		}
		frame = append(frame, body...)
	case '*', '~', '>': // a number of values; -1: null
		if parts, err = length(line); err != nil {
			return nil, err
		}
	case '%': // a number of pairs
		if parts, err = length(line); err != nil {
			return nil, err
		}
		parts *= 2
	case '|': // attributes: pairs, then the value that they belong to
		if parts, err = length(line); err != nil {
			return nil, err
		}
		parts = parts*2 + 1
	default:
		return nil, fmt.Errorf("reply of unknown type %q", line[0])
	}
	for range parts {
		if frame, err = appendReply(frame, r); err != nil {
			return nil, err
		}
	}
	return frame, nil
}

func length(line []byte) (int, error) { return strconv.Atoi(strings.TrimSpace(string(line[1:]))) }
