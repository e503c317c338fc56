// This file is about the metadata of exclusive locks.

package redisstore

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/leasewheel/leasewheel/lock/driver"
)

var _ driver.MetadataSetter = (*Store)(nil)

// The scripts get the metadata of an exclusive lock as a part of the owner:
// "owner{metadata", in base64. Locks without metadata therefore pay nothing, and the
// scripts need not know about metadata. A handed-over lock has its metadata at once.
// Owners contain no brace. A dot after the brace tells queue.lua that the owner asks for the
// state of the key.
//
// A holder that changes its metadata keeps that owner, because renewals and releases that
// are under way name it. The new metadata are in a key of their own, with the token of the
// holder.

const (
	metadataMark = "{"
	statefulMark = "." // base64 has no dot
)

// wireOwner returns the owner of a request in the form that the scripts get.
func wireOwner(r *driver.Request) string {
	if r.Mode != driver.Exclusive || r.Attrs == nil || r.Attrs.Metadata == "" && !r.Attrs.Stateful {
		return r.Owner
	}
	mark := metadataMark
	if r.Attrs.Stateful {
		mark += statefulMark
	}
	return r.Owner + mark + base64.RawURLEncoding.EncodeToString([]byte(r.Attrs.Metadata))
}

// metadataOf returns the metadata in an owner that wireOwner made.
func metadataOf(name string) string {
	_, text, _ := strings.Cut(name, metadataMark)
	metadata, err := base64.RawURLEncoding.DecodeString(strings.TrimPrefix(text, statefulMark))
	if err != nil {
		return ""
	}
	return string(metadata)
}

// clientNameOf returns the name of the client in an owner that wireOwner made.
func clientNameOf(name string) string {
	owner, _, _ := strings.Cut(name, metadataMark)
	return driver.ClientName(owner)
}

func checkMetadata(r *driver.Request) error {
	if n := len(r.Metadata()); n > driver.MaxMetadataLen {
		return fmt.Errorf("the metadata are %d bytes long, the limit is %d", n, driver.MaxMetadataLen)
	}
	return nil
}

// metadataTTL is how long the server keeps metadata of SetMetadata. Nothing extends it, so it
// outlasts any leadership in practice. The release of the lock deletes them before; after a crash of the
// leader, the release by the next one does.
const metadataTTL = 365 * 24 * time.Hour

// SetMetadata implements [driver.MetadataSetter] in mode Exclusive. The server forgets the
// metadata after a year, and Inspect then shows those of the Acquire again.
func (s *Store) SetMetadata(ctx context.Context, l driver.Lease, metadata string) error {
	if err := s.setMetadata(ctx, l, metadata); err != nil {
		return failed("set the metadata of", l.Key, err)
	}
	return nil
}

func (s *Store) setMetadata(ctx context.Context, l driver.Lease, metadata string) error {
	if l.Mode != driver.Exclusive {
		return fmt.Errorf("metadata in mode %v: %w", l.Mode, errors.ErrUnsupported)
	}
	st, err := s.stateOf(&l)
	if err != nil {
		return err
	}
	key, token := st.key+metadataEnd, strconv.FormatUint(l.Token, 10)
	reply, err := s.run(ctx, metadataScript, l.Owner, nil, nil, 2, &st.key, &key, &st.value, &token, &metadata, metadataTTL.Milliseconds())
	if err != nil {
		return err
	}
	return parseDone(reply)
}
