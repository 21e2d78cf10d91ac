package main

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/pulumi/pulumi/sdk/v3/go/common/resource"
	"github.com/pulumi/pulumi/sdk/v3/go/common/resource/plugin"
	rpc "github.com/pulumi/pulumi/sdk/v3/proto/go"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/structpb"
)

// stored is what a file contains.
type stored struct {
	Name    string `json:"name"`
	Content string `json:"content"`
	Secret  string `json:"secret,omitempty"`
}

var errInterrupted = errors.New("interrupted")

func resourceKey(name string) resource.PropertyKey { return resource.PropertyKey(name) }

func (*testing) Diff(_ context.Context, request *rpc.DiffRequest) (*rpc.DiffResponse, error) {
	olds, err := plugin.UnmarshalProperties(request.GetOldInputs(), options)
	if err != nil {
		return nil, err
	}
	news, err := plugin.UnmarshalProperties(request.GetNews(), options)
	if err != nil {
		return nil, err
	}
	answer := &rpc.DiffResponse{
		Changes: rpc.DiffResponse_DIFF_NONE, HasDetailedDiff: true, DetailedDiff: map[string]*rpc.PropertyDiff{},
	}
	names := map[resource.PropertyKey]bool{}
	for name := range olds {
		names[name] = true
	}
	for name := range news {
		names[name] = true
	}
	for name := range names {
		old, isOld := olds[name]
		now, isNew := news[name]
		if isOld && isNew && old.DeepEquals(now) {
			continue
		}
		isReplacing := name == "directory" || name == "name"
		answer.Changes = rpc.DiffResponse_DIFF_SOME
		answer.Diffs = append(answer.Diffs, string(name))
		answer.DetailedDiff[string(name)] = &rpc.PropertyDiff{Kind: kind(isOld, isNew, isReplacing), InputDiff: true}
		if isReplacing {
			answer.Replaces = append(answer.Replaces, string(name))
		}
	}
	return answer, nil
}

func kind(isOld, isNew, isReplacing bool) rpc.PropertyDiff_Kind {
	found := rpc.PropertyDiff_UPDATE
	if !isOld {
		found = rpc.PropertyDiff_ADD
	} else if !isNew {
		found = rpc.PropertyDiff_DELETE
	}
	if isReplacing {
		found++ // each kind is followed by the same one with a replacement
	}
	return found
}

func (t *testing) Create(ctx context.Context, request *rpc.CreateRequest) (*rpc.CreateResponse, error) {
	wanted := request.GetProperties()
	if request.GetPreview() {
		return &rpc.CreateResponse{Properties: wanted}, nil
	}
	name := make([]byte, 8)
	if _, err := rand.Read(name); err != nil {
		return nil, err
	}
	id := filepath.Join(text(wanted, "directory"), hex.EncodeToString(name))
	if err := t.change(wanted, "create", func() error { return write(id, wanted, os.O_CREATE|os.O_EXCL) }); err != nil {
		return nil, err
	}
	return &rpc.CreateResponse{Id: id, Properties: wanted}, nil
}

func (*testing) Read(_ context.Context, request *rpc.ReadRequest) (*rpc.ReadResponse, error) {
	known := request.GetProperties()
	if text(known, "fail") == "read" {
		return nil, errors.New("cannot read the file: the configuration says so (fail)")
	}
	content, err := os.ReadFile(request.GetId())
	if errors.Is(err, fs.ErrNotExist) {
		return &rpc.ReadResponse{}, nil
	}
	var found stored
	if err == nil {
		err = json.Unmarshal(content, &found)
	}
	if err != nil {
		return nil, err
	}
	properties, err := plugin.UnmarshalProperties(known, options)
	if err != nil {
		return nil, err
	}
	properties["directory"] = resource.NewStringProperty(filepath.Dir(request.GetId()))
	properties["name"] = resource.NewStringProperty(found.Name)
	if _, isSet := properties["content"]; isSet || found.Content != "" {
		properties["content"] = resource.NewStringProperty(found.Content)
	}
	if found.Secret != "" {
		properties["secret"] = resource.MakeSecret(resource.NewStringProperty(found.Secret))
	}
	marshalled, err := plugin.MarshalProperties(properties, options)
	if err != nil {
		return nil, err
	}
	return &rpc.ReadResponse{Id: request.GetId(), Properties: marshalled, Inputs: marshalled}, nil
}

func (t *testing) Update(_ context.Context, request *rpc.UpdateRequest) (*rpc.UpdateResponse, error) {
	wanted := request.GetNews()
	if request.GetPreview() {
		return &rpc.UpdateResponse{Properties: wanted}, nil
	}
	if err := t.change(wanted, "update", func() error { return write(request.GetId(), wanted, os.O_TRUNC) }); err != nil {
		return nil, err
	}
	return &rpc.UpdateResponse{Properties: wanted}, nil
}

func (t *testing) Delete(_ context.Context, request *rpc.DeleteRequest) (*emptypb.Empty, error) {
	err := t.change(request.GetProperties(), "delete", func() error { return os.Remove(request.GetId()) })
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return &emptypb.Empty{}, nil
}

// change makes one change, after the waits that the program asks for. It fails if the program says so, and if the engine is
// interrupted during a wait.
func (t *testing) change(properties *structpb.Struct, operation string, do func() error) error {
	if err := t.pause(number(properties, "delaySeconds")); err != nil {
		return err
	}
	if path := text(properties, "readLineOf"); path != "" && operation != "delete" {
		if err := t.readLine(path); err != nil {
			return err
		}
	}
	for path := text(properties, "waitFor"); path != ""; {
		if _, err := os.Stat(path); err == nil {
			break
		}
		if err := t.pause(0.01); err != nil {
			return err
		}
	}
	if text(properties, "fail") == operation {
		return errors.New("cannot " + operation + " the file: the program says so (fail)")
	}
	if err := do(); err != nil {
		return err
	}
	return t.pause(number(properties, "delayAfterSeconds"))
}

func (t *testing) readLine(path string) error {
	ended := make(chan error, 1)
	go func() {
		file, err := os.Open(path)
		if err == nil {
			_, err = bufio.NewReader(file).ReadString('\n')
			err = errors.Join(err, file.Close())
		}
		ended <- err
	}()
	select {
	case err := <-ended:
		return err
	case <-t.interrupted:
		return errInterrupted
	}
}

func (t *testing) pause(seconds float64) error {
	select {
	case <-time.After(time.Duration(seconds * float64(time.Second))):
		return nil
	case <-t.interrupted:
		return errInterrupted
	}
}

func write(id string, wanted *structpb.Struct, flags int) error {
	content, err := json.Marshal(stored{text(wanted, "name"), text(wanted, "content"), text(wanted, "secret")})
	if err != nil {
		return err
	}
	out, err := os.OpenFile(id, os.O_WRONLY|flags, 0o600)
	if err != nil {
		return err
	}
	_, err = out.Write(content)
	return errors.Join(err, out.Close())
}
