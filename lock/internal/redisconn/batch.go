// This file is about Batch, a pipeline of scripts for one node.

package redisconn

import (
	"context"
	"time"

	"github.com/leasewheel/leasewheel/lock/internal/redisnode"
)

// Batch is a pipeline of scripts for one node of a client; see [redisnode.Batch]. The errors of Reply may contain
// secrets; see [Client.Explain].
type Batch struct {
	redisnode.Batch
	client *Client
	node   *Node
}

// Begin prepares the batch for a node.
func (b *Batch) Begin(c *Client, n *Node) { b.client, b.node = c, n }

// Node returns the node of the batch.
func (b *Batch) Node() *Node { return b.node }

// Send sends the scripts and waits for the replies, as [redisnode.Node.Send] does. A cluster suspects a node
// that does not answer or does not serve.
func (b *Batch) Send(ctx context.Context, bound time.Duration) error {
	c := b.client
	if err := c.Begin(ctx); err != nil {
		return err
	}
	defer c.End()
	if c.cluster != nil {
		defer c.cluster.suspectLater(b.node)()
	}
	err := b.node.Send(ctx, &b.Batch, bound)
	if err != nil {
		err = c.Explain(ctx, err)
	} else if b.answersFirst() {
		c.answers.note()
	}
	if c.cluster != nil {
		c.cluster.noteBatch(b, err)
	}
	return err
}

// answersFirst reports whether the first script has a reply that is no error.
func (b *Batch) answersFirst() bool {
	if b.Len() == 0 {
		return false
	}
	_, err := b.Reply(0)
	return err == nil
}

// Replicas returns how many replicas have confirmed the scripts of a batch that was sent.
func (b *Batch) Replicas(ctx context.Context) (int, error) {
	return b.Batch.Replicas(func(err error) error { return b.client.Explain(ctx, err) })
}

// Reset empties the batch and keeps its memory. It forgets the client and the node.
func (b *Batch) Reset() {
	b.Batch.Reset()
	b.client, b.node = nil, nil
}
