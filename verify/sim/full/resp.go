// The protocol of Redis: replies as bytes.

package full

import (
	"fmt"
	"strings"
)

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
