// The protocol of Redis: commands and replies as bytes.

package full

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

var errProtocol = errors.New("sim: no command")

// readCommand reads one command: an array of bulk strings.
func readCommand(r *bufio.Reader) ([]string, error) {
	n, err := readLength(r, '*')
	if err != nil {
		return nil, err
	}
	args := make([]string, n)
	for i := range args {
		size, err := readLength(r, '$')
		if err != nil {
			return nil, err
		}
		bulk := make([]byte, size+2) // includes the line end
		if _, err := io.ReadFull(r, bulk); err != nil {
			return nil, err
		}
		args[i] = string(bulk[:size])
	}
	return args, nil
}

func readLength(r *bufio.Reader, kind byte) (int, error) {
	text, err := r.ReadString('\n')
	if err != nil {
		return 0, err
	}
	if len(text) < 4 || text[0] != kind {
		return 0, errProtocol
	}
	return strconv.Atoi(text[1 : len(text)-2])
}

// bulks returns an array of bulk strings, such as a message of a subscription.
func bulks(items ...string) []byte {
	var out strings.Builder
	fmt.Fprintf(&out, "*%d\r\n", len(items))
	for _, item := range items {
		writeBulk(&out, item)
	}
	return []byte(out.String())
}

func writeBulk(out *strings.Builder, item string) {
	fmt.Fprintf(out, "$%d\r\n%s\r\n", len(item), item)
}

// changed returns the reply to SUBSCRIBE or UNSUBSCRIBE.
func changed(kind, channel string, left int) []byte {
	var out strings.Builder
	out.WriteString("*3\r\n")
	writeBulk(&out, kind)
	writeBulk(&out, channel)
	fmt.Fprintf(&out, ":%d\r\n", left)
	return []byte(out.String())
}
