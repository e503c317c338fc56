package redisconn

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"
)

// Command is a command that is not a script of the package's users. Do sets all but Args.
type Command struct {
	Args    []any
	Reply   any
	Err     error // without secrets
	Refused bool  // Err is an error reply of the server
}

// NewCommand returns a command with the given words.
func NewCommand(args ...any) *Command { return &Command{Args: args} }

// Masters returns the nodes that serve slots, in the order of their slots. In a cluster it
// reads the slots again first. Slots without a node are no error, unlike in AllMasters. A client
// for one server has one node.
func (c *Client) Masters(ctx context.Context) ([]*Node, error) {
	if err := c.calls.begin(ctx); err != nil {
		return nil, err
	}
	defer c.calls.running.Done()
	if c.cluster == nil {
		return []*Node{c.node}, nil
	}
	if err := c.cluster.readAgain(ctx); err != nil {
		return nil, c.calls.reason(ctx, c.secrets.clean(err))
	}
	var masters []*Node
	seen := make(map[*Node]bool)
	for slot := range c.cluster.slots {
		if n := c.cluster.slots[slot].Load(); n != nil && !seen[n] {
			seen[n] = true
			masters = append(masters, n)
		}
	}
	return masters, nil
}

// Do sends commands to a node in one pipeline, for at most Options.Timeout. It returns an
// error, and sets nothing, if it stops waiting for the replies. Otherwise each command has a
// reply or an error. It follows no redirections. The commands must not change the state of
// the connection, because requests share it.
func (c *Client) Do(ctx context.Context, n *Node, commands ...*Command) error {
	cmds, err := await(ctx, c.calls, c.timeout, func(ctx context.Context) ([]*redis.Cmd, error) {
		pipe := n.rdb.Pipeline()
		cmds := make([]*redis.Cmd, len(commands))
		for i, command := range commands {
			cmds[i] = redis.NewCmd(ctx, command.Args...)
			_ = pipe.Process(ctx, cmds[i]) // only queues the command
		}
		_, err := pipe.Exec(ctx)
		for _, cmd := range cmds {
			// If the server refuses the connection, go-redis returns an error from Exec
			// but does not set it on the commands.
			if err != nil && cmd.Err() == nil && cmd.Val() == nil {
				cmd.SetErr(err)
			}
		}
		return cmds, nil
	})
	if err != nil {
		return err
	}
	for i, cmd := range cmds {
		command := commands[i]
		command.Reply, command.Err, command.Refused = cmd.Val(), nil, false
		if err := cmd.Err(); err != nil {
			command.Refused = isAnswered(err)
			command.Err = c.calls.reason(ctx, c.secrets.clean(err))
		}
	}
	return nil
}

// TrySubscribe subscribes to a channel at a node, on a connection of its own, and
// unsubscribes again, for at most Options.Timeout. It reports whether err is an error reply of
// the server.
func (c *Client) TrySubscribe(ctx context.Context, n *Node, channel string) (refused bool, err error) {
	_, err = await(ctx, c.calls, c.timeout, func(ctx context.Context) (struct{}, error) {
		ps := n.rdb.Subscribe(ctx)
		defer func() { _ = ps.Close() }()
		if err := ps.Subscribe(ctx, channel); err != nil {
			return struct{}{}, err
		}
		if err := receive(ctx, ps); err != nil {
			return struct{}{}, err
		}
		if err := ps.Unsubscribe(ctx, channel); err != nil {
			return struct{}{}, err
		}
		return struct{}{}, receive(ctx, ps)
	})
	if err != nil {
		return isAnswered(err), c.secrets.clean(err)
	}
	return false, nil
}

// receive waits for one message of a subscription.
func receive(ctx context.Context, ps *redis.PubSub) error {
	until, _ := ctx.Deadline() // await sets one
	_, err := ps.ReceiveTimeout(ctx, max(time.Until(until), time.Millisecond))
	return err
}
