// List.

package sqlstore

import (
	"context"
	"database/sql"
	"fmt"
	"strings"

	"github.com/leasewheel/leasewheel/internal/basic"
	"github.com/leasewheel/leasewheel/lock/driver"
)

// afterAllKeys is greater than every key.
var afterAllKeys = []byte(strings.Repeat("\xff", driver.MaxKeyLen+1))

// List implements [driver.Store]. One call reads up to 1,000 rows with the prefix, in the order
// of their keys. The cursor is the last of these keys.
func (s *Store) List(ctx context.Context, prefix, cursor string) (keys []string, next string, err error) {
	if cursor != "" && !strings.HasPrefix(cursor, prefix) {
		return nil, "", fmt.Errorf("sqlstore: the cursor %s is not one of a List with prefix %s", basic.Quote(cursor), basic.Quote(prefix))
	}
	p, err := call(ctx, s, func(ctx context.Context, c *sql.Conn) (page, error) {
		return readPage(c.QueryContext(ctx, s.texts.list, []byte(max(string(keyAfter(cursor)), prefix)), endOf(prefix)))
	})
	if err != nil {
		return nil, "", failed("list", err)
	}
	return p.keys, p.next, nil
}

// page is what one statement finds in up to 1,000 rows.
type page struct {
	keys []string // of the rows that are wanted
	next string   // the last key that was read, "" if no more follow
}

// readPage reads rows of a key and of 1 if the row is wanted.
func readPage(rows *sql.Rows, err error) (p page, _ error) {
	if err != nil {
		return p, err
	}
	defer func() { _ = rows.Close() }()
	n := 0
	for ; rows.Next(); n++ {
		var key []byte
		var wanted int
		if err := rows.Scan(&key, &wanted); err != nil {
			return p, err
		}
		if wanted == 1 {
			p.keys = append(p.keys, string(key))
		}
		p.next = string(key)
	}
	if n < pageSize {
		p.next = ""
	}
	return p, rows.Err()
}

// keyAfter returns the key that comes next after another one, or the first one after "".
func keyAfter(key string) []byte { return []byte(key + "\x00") }

// endOf returns the first string of bytes after all that begin with a prefix.
func endOf(prefix string) []byte {
	end := []byte(prefix)
	for len(end) > 0 && end[len(end)-1] == 0xff {
		end = end[:len(end)-1]
	}
	if len(end) == 0 {
		return afterAllKeys
	}
	end[len(end)-1]++
	return end
}
