// The stream: how it is created, and what New checks of its settings and of the
// rights of the user.

package natsstore

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// CreateStream creates the stream of a store, or changes its settings to those that a store needs.
// It needs a server of version 2.12 or later. Call it when a program is installed or started; any number of calls do no harm.
//
// The first sequence of a new stream is the time in microseconds. So if a stream is deleted and created
// again, its tokens are higher than before, and no renewal of an old holder fits a new lock.
func CreateStream(ctx context.Context, js jetstream.JetStream, options *Options) error {
	o, err := options.withDefaults()
	if err != nil {
		return err
	}
	ctx, cancel := bound(ctx, maxCall)
	defer cancel()
	if err := createStream(ctx, js, o); err != nil {
		return fmt.Errorf("natsstore: create stream %s: %w", o.Stream, because(js, o, err))
	}
	return nil
}

func createStream(ctx context.Context, js jetstream.JetStream, o Options) error {
	config := jetstream.StreamConfig{
		Name:              o.Stream,
		Description:       "locks of leasewheel",
		Subjects:          o.subjects(),
		MaxMsgsPerSubject: 1,
		Discard:           jetstream.DiscardOld,
		Duplicates:        duplicates,
		AllowMsgTTL:       true,
		DenyPurge:         true,
		Replicas:          o.Replicas,
		Storage:           jetstream.FileStorage,
	}
	stream, err := js.Stream(ctx, o.Stream)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		config.FirstSeq = uint64(time.Now().UnixMicro())
		_, err = js.CreateStream(ctx, config)
		if !errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
			return err
		}
		stream, err = js.Stream(ctx, o.Stream) // another process has created it meanwhile
	}
	if err != nil {
		return err
	}
	config.FirstSeq = stream.CachedInfo().Config.FirstSeq // with a higher one, the server would delete all locks when it restarts
	_, err = js.UpdateStream(ctx, config)
	return err
}

// subjects returns the subjects of the stream: locks and tombstones.
func (o *Options) subjects() []string { return []string{o.Prefix + ".k.*", o.Prefix + ".x.*"} }

// open returns the stream if locks are safe in it.
func open(ctx context.Context, js jetstream.JetStream, o Options) (jetstream.Stream, error) {
	if v := js.Conn().ConnectedServerVersion(); isTooOld(v) {
		return nil, fmt.Errorf("the server has version %s and needs 2.12 or later: older replicas lose confirmed locks when the leader of the stream changes", v)
	}
	stream, err := js.Stream(ctx, o.Stream)
	if err != nil {
		return nil, fmt.Errorf("read its settings: %w", contextCause(ctx, err))
	}
	if err := check(stream.CachedInfo().Config, o); err != nil {
		return nil, err
	}
	return stream, checkRights(ctx, js, stream, o)
}

// isTooOld reports whether a server has a version below 2.12. With three servers of 2.11.17 whose leader was paused,
// tests saw tokens twice.
func isTooOld(version string) bool {
	var major, minor int
	n, _ := fmt.Sscanf(version, "%d.%d", &major, &minor)
	return n == 2 && (major < 2 || major == 2 && minor < 12)
}

// check returns an error that names a setting of a stream with which locks are not safe.
func check(c jetstream.StreamConfig, o Options) error {
	for _, s := range []struct {
		name string
		is   any
		ok   bool
		need string
	}{
		{"Subjects", c.Subjects, sameSubjects(c.Subjects, o.subjects()), fmt.Sprint(o.subjects())},
		{"Mirror", "set", c.Mirror == nil, "nil"},
		{"Sources", "set", len(c.Sources) == 0, "nil"},
		{"SubjectTransform", "set", c.SubjectTransform == nil, "nil"},
		{"Sealed", c.Sealed, !c.Sealed, "false"},
		{"Storage", c.Storage, c.Storage == jetstream.FileStorage, "File, because a server that restarts would forget the locks"},
		{"PersistMode", c.PersistMode, c.PersistMode == jetstream.DefaultPersistMode, "default, because a server that crashes would forget confirmed locks"},
		{"Retention", c.Retention, c.Retention == jetstream.LimitsPolicy, jetstream.LimitsPolicy.String()},
		{"NoAck", c.NoAck, !c.NoAck, "false"},
		{"AllowMsgTTL", c.AllowMsgTTL, c.AllowMsgTTL, "true"},
		{"AllowMsgCounter", c.AllowMsgCounter, !c.AllowMsgCounter, "false"},
		{"AllowDirect", c.AllowDirect, !c.AllowDirect, "false, because replicas that are behind would answer reads"},
		{"SubjectDeleteMarkerTTL", c.SubjectDeleteMarkerTTL, c.SubjectDeleteMarkerTTL == 0, "0, because a lease that ends would leave a message that is not a lock"},
		{"MaxMsgsPerSubject", c.MaxMsgsPerSubject, c.MaxMsgsPerSubject == 1, "1"},
		{"DiscardNewPerSubject", c.DiscardNewPerSubject, !c.DiscardNewPerSubject, "false, because the server would refuse renewals"},
		{"MaxMsgSize", c.MaxMsgSize, c.MaxMsgSize <= 0 || c.MaxMsgSize >= leastMsgSize, fmt.Sprint("unlimited or at least ", leastMsgSize)},
		{"MaxAge", c.MaxAge, c.MaxAge == 0, "0"},
		{"MaxMsgs", c.MaxMsgs, c.MaxMsgs <= 0 || c.Discard == jetstream.DiscardNew, "unlimited, because the server would delete locks"},
		{"MaxBytes", c.MaxBytes, c.MaxBytes <= 0 || c.Discard == jetstream.DiscardNew, "unlimited, because the server would delete locks"},
		{"FirstSeq", c.FirstSeq, c.FirstSeq >= leastFirstSeq, "microseconds since 1970, so that tokens rise when the stream is made again"},
		{"Duplicates", c.Duplicates, c.Duplicates >= tombstoneTTL, "at least " + tombstoneTTL.String()},
	} {
		if !s.ok {
			return fmt.Errorf("%s is %v and must be %s; see CreateStream", s.name, s.is, s.need)
		}
	}
	return nil
}

func sameSubjects(a, b []string) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}

// leastFirstSeq is a FirstSeq of CreateStream, which takes the clock, in 2001.
const leastFirstSeq = 1e15

// probe is a token of subjects that no key has.
const probe = "_"

// checkRights returns an error if the user of the connection lacks a right that locks need. The server
// refuses a message without notifying its sender, so a lock could be granted and never be renewed or
// released.
func checkRights(ctx context.Context, js jetstream.JetStream, stream jetstream.Stream, o Options) error {
	nc := js.Conn()
	for _, kind := range []string{".k.", ".x.", ".w."} {
		m := nats.NewMsg(o.Prefix + kind + probe)
		m.Header.Set(jetstream.ExpectedLastSubjSeqHeader, fmt.Sprint(int64(math.MaxInt64))) // the stream does not store it
		if err := errors.Join(nc.PublishMsg(m), nc.FlushWithContext(ctx)); err != nil {
			return contextCause(ctx, err)
		}
		if refused(nc, m.Subject) {
			return nc.LastError()
		}
	}
	waiters, err := nc.SubscribeSync(o.Prefix + ".w." + probe)
	if err == nil {
		err = errors.Join(nc.FlushWithContext(ctx), waiters.Unsubscribe())
	}
	if err != nil {
		return contextCause(ctx, err)
	}
	if refused(nc, waiters.Subject) {
		return nc.LastError()
	}
	if _, err := stream.GetLastMsgForSubject(ctx, o.Prefix+".k."+probe); err != nil && !errors.Is(err, jetstream.ErrMsgNotFound) {
		return fmt.Errorf("read a lock: %w", contextCause(ctx, err))
	}
	return nil
}

// refused reports whether the last message or subscription that the server has refused is about a subject
// with this text.
func refused(nc *nats.Conn, subject string) bool {
	err := nc.LastError()
	return errors.Is(err, nats.ErrPermissionViolation) && strings.Contains(err.Error(), subject)
}
