// The Pulumi provider `testing`: what tests create, change and lose instead of resources of a cloud.
// ../README.md says how a test uses it.
package main

import (
	"context"
	"fmt"
	"os"
	"sync"

	"github.com/pulumi/pulumi/sdk/v3/go/common/resource/plugin"
	"github.com/pulumi/pulumi/sdk/v3/go/pulumi/provider"
	rpc "github.com/pulumi/pulumi/sdk/v3/proto/go"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/structpb"
)

const version = "1.0.0"

const schema = `{
  "name": "testing",
  "version": "` + version + `",
  "provider": {},
  "resources": {
    "testing:index:File": {
      "description": "A file. Its id is its path.",
      "inputProperties": {
        "directory": {"type": "string", "description": "An existing directory.", "willReplaceOnChanges": true},
        "name": {"type": "string", "description": "Tells the files of a directory apart.", "willReplaceOnChanges": true},
        "content": {"type": "string", "description": "Changed in place."},
        "secret": {"type": "string", "secret": true, "description": "Changed in place."},
        "delaySeconds": {"type": "number", "description": "The time that each change takes before it is made."},
        "delayAfterSeconds": {"type": "number", "description": "The time that each change takes after it was made, before the engine learns of it."},
        "readLineOf": {"type": "string", "description": "A path. Each change opens it and waits for a line."},
        "waitFor": {"type": "string", "description": "A path. Each change waits until something exists there."},
        "fail": {"type": "string", "description": "The operation that fails: create, read, update or delete."}
      },
      "requiredInputs": ["directory", "name"],
      "properties": {
        "directory": {"type": "string"},
        "name": {"type": "string"},
        "content": {"type": "string"},
        "secret": {"type": "string", "secret": true},
        "delaySeconds": {"type": "number"},
        "delayAfterSeconds": {"type": "number"},
        "readLineOf": {"type": "string"},
        "waitFor": {"type": "string"},
        "fail": {"type": "string"}
      },
      "required": ["directory", "name"]
    }
  }
}`

func main() {
	err := provider.Main("testing", func(*provider.HostClient) (rpc.ResourceProviderServer, error) {
		return &testing{interrupted: make(chan struct{})}, nil
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

type testing struct {
	rpc.UnimplementedResourceProviderServer

	interrupted chan struct{}
	interrupt   sync.Once
}

func (*testing) GetPluginInfo(context.Context, *emptypb.Empty) (*rpc.PluginInfo, error) {
	return &rpc.PluginInfo{Version: version}, nil
}

func (*testing) GetSchema(context.Context, *rpc.GetSchemaRequest) (*rpc.GetSchemaResponse, error) {
	return &rpc.GetSchemaResponse{Schema: schema}, nil
}

func (*testing) CheckConfig(_ context.Context, request *rpc.CheckRequest) (*rpc.CheckResponse, error) {
	return &rpc.CheckResponse{Inputs: request.GetNews()}, nil
}

func (*testing) DiffConfig(context.Context, *rpc.DiffRequest) (*rpc.DiffResponse, error) {
	return &rpc.DiffResponse{Changes: rpc.DiffResponse_DIFF_NONE}, nil
}

func (*testing) Configure(context.Context, *rpc.ConfigureRequest) (*rpc.ConfigureResponse, error) {
	return &rpc.ConfigureResponse{AcceptSecrets: true, SupportsPreview: true, AcceptResources: true, AcceptOutputs: true}, nil
}

func (*testing) Attach(context.Context, *rpc.PluginAttach) (*emptypb.Empty, error) {
	return &emptypb.Empty{}, nil
}

// Cancel ends the waits of all changes: the engine was interrupted.
func (t *testing) Cancel(context.Context, *emptypb.Empty) (*emptypb.Empty, error) {
	t.interrupt.Do(func() { close(t.interrupted) })
	return &emptypb.Empty{}, nil
}

func marshalled(request *rpc.CheckRequest) *rpc.CheckResponse {
	return &rpc.CheckResponse{Inputs: request.GetNews()}
}

func (*testing) Check(_ context.Context, request *rpc.CheckRequest) (*rpc.CheckResponse, error) {
	return marshalled(request), nil
}

var options = plugin.MarshalOptions{KeepUnknowns: true, KeepSecrets: true, KeepResources: true, SkipNulls: true}

// text returns a property as a text, also if it is secret; "" if it is not set or not known yet.
func text(properties *structpb.Struct, name string) string {
	found, err := plugin.UnmarshalProperties(properties, plugin.MarshalOptions{SkipNulls: true})
	if err != nil || !found[resourceKey(name)].IsString() {
		return ""
	}
	return found[resourceKey(name)].StringValue()
}

func number(properties *structpb.Struct, name string) float64 {
	return properties.GetFields()[name].GetNumberValue()
}
