// The clients of a Store: each has a session, which takes a bounded number of nodes.

package zkstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-zookeeper/zk"

	"github.com/leasewheel/leasewheel/lock/driver"
)

// A server writes the end of a session as one transaction, with the paths of all of its ephemeral
// nodes. No server can read a transaction above jute.maxbuffer, which is 1 MiB by default: the
// ensemble would stop, and would not start again. So a Store opens another session when the paths of
// one have reached maxBytes.
const maxClients = 32

// client is a connection of a Store, whose session has a bounded number of nodes.
type client struct {
	*Store
	link *link

	// mu of the Store guards these.
	bytes   int                        // of the paths of nodes that the session has or may have
	watches map[string]<-chan zk.Event // by path; each reports one change
}

var (
	errNoRoom  = errors.New("the session has no room for the node")
	errTooMany = fmt.Errorf("the Store has as many locks and places in queues as fit into %d sessions with paths of %d bytes", maxClients, maxBytes)
)

// withRoom calls f with a client whose session has room for a node of r, or has one already.
func (s *Store) withRoom(ctx context.Context, r driver.Request, f func(c *client) error) error {
	bytes := len(s.prefixPath(r)) + digits
	s.mu.Lock()
	c := s.knows(leaseKey{r.Key, r.Owner})
	s.mu.Unlock()
	for {
		if c == nil {
			var err error
			if c, err = s.roomy(ctx, bytes); err != nil {
				return err
			}
		}
		err := f(c)
		if !errors.Is(err, errNoRoom) {
			return err
		}
		c = nil // others have taken the room
	}
}

// clientOf returns the client that has sent requests for a lease, or one that sees their effects.
func (s *Store) clientOf(k leaseKey) *client {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.knows(k); c != nil {
		return c
	}
	return s.clients[0]
}

// knows returns the client that has, or may have, a node for a lease, nil if there is none. mu is
// locked.
func (s *Store) knows(k leaseKey) *client {
	if c := s.creations[k]; c != nil {
		return c.client
	}
	if rec := s.records[k]; rec != nil {
		return rec.client
	}
	return nil
}

// first returns the client for requests that need none in particular.
func (s *Store) first() *client {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.clients[0]
}

// roomy returns a client that has room for a path, a new one if there is none.
func (s *Store) roomy(ctx context.Context, bytes int) (*client, error) {
	if c, err := s.roomIn(bytes); c != nil || err != nil {
		return c, err
	}
	select {
	case s.opening <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	type result struct {
		client *client
		err    error
	}
	opened := make(chan result, 1)
	go func() { // which goes on if ctx ends
		defer func() { <-s.opening }()
		c, err := s.roomIn(bytes)
		if c == nil && err == nil {
			c, err = s.open()
		}
		opened <- result{c, err}
	}()
	select {
	case r := <-opened:
		return r.client, r.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// roomIn returns a client that has room for a path, nil if there is none but another may be opened.
func (s *Store) roomIn(bytes int) (*client, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.clients {
		if c.bytes+bytes <= maxBytes {
			return c, nil
		}
	}
	if len(s.clients) >= maxClients {
		return nil, errTooMany
	}
	return nil, nil
}

// open opens a further client. There is one call at a time.
func (s *Store) open() (*client, error) {
	c, err := s.newClient()
	if err != nil {
		return nil, err
	}
	if err := c.login(s.calls.Ctx); err != nil {
		c.link.close()
		return nil, fmt.Errorf("connect: %w", c.link.explain(err))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clients = append(s.clients, c)
	return c, nil
}

func (s *Store) newClient() (*client, error) {
	l, err := dial(s.servers, s.timeout, s.sessionEnded)
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	return &client{Store: s, link: l, watches: make(map[string]<-chan zk.Event)}, nil
}

// login sends the user of the Store, before all other requests. The ZooKeeper client repeats it on each
// new connection.
func (s *client) login(ctx context.Context) error {
	if s.digest == "" {
		return nil
	}
	_, err := ask(ctx, s.link, func(conn *zk.Conn) (struct{}, error) {
		return struct{}{}, conn.AddAuth("digest", []byte(s.digest))
	})
	return err
}
