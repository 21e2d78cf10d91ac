package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/types"
)

// file is a resource whose real thing is a file. Each creation makes a new file with a new name, so that a test which
// counts the files of a directory sees what was made twice, and what was made and forgotten.
type file struct{}

type fileModel struct {
	ID                types.String  `tfsdk:"id"`
	Directory         types.String  `tfsdk:"directory"`
	Name              types.String  `tfsdk:"name"`
	Content           types.String  `tfsdk:"content"`
	Secret            types.String  `tfsdk:"secret"`
	DelaySeconds      types.Float64 `tfsdk:"delay_seconds"`
	DelayAfterSeconds types.Float64 `tfsdk:"delay_after_seconds"`
	WaitFor           types.String  `tfsdk:"wait_for"`
	Fail              types.String  `tfsdk:"fail"`
}

// stored is what a file contains.
type stored struct {
	Name    string `json:"name"`
	Content string `json:"content"`
	Secret  string `json:"secret,omitempty"`
}

func (*file) Metadata(_ context.Context, request resource.MetadataRequest, response *resource.MetadataResponse) {
	response.TypeName = request.ProviderTypeName + "_file"
}

func (*file) Schema(_ context.Context, _ resource.SchemaRequest, response *resource.SchemaResponse) {
	replace := []planmodifier.String{stringplanmodifier.RequiresReplace()}
	response.Schema = schema.Schema{Attributes: map[string]schema.Attribute{
		"id": schema.StringAttribute{
			Computed:      true,
			Description:   "The path of the file, which is also the id to import it by.",
			PlanModifiers: []planmodifier.String{stringplanmodifier.UseStateForUnknown()},
		},
		"directory": schema.StringAttribute{Required: true, PlanModifiers: replace, Description: "An existing directory."},
		"name":      schema.StringAttribute{Required: true, PlanModifiers: replace, Description: "Tells the files of a directory apart."},
		"content":   schema.StringAttribute{Optional: true, Description: "Changed in place."},
		"secret":    schema.StringAttribute{Optional: true, Sensitive: true, Description: "Changed in place."},
		"delay_seconds": schema.Float64Attribute{
			Optional: true, Description: "The time that each change takes before it is made.",
		},
		"delay_after_seconds": schema.Float64Attribute{
			Optional: true, Description: "The time that each change takes after it was made, before the engine learns of it.",
		},
		"wait_for": schema.StringAttribute{
			Optional: true, Description: "A path. Each change waits until something exists there.",
		},
		"fail": schema.StringAttribute{
			Optional: true, Description: "The operation that fails: create, read, update or delete.",
		},
	}}
}

func (*file) Create(ctx context.Context, request resource.CreateRequest, response *resource.CreateResponse) {
	var wanted fileModel
	response.Diagnostics.Append(request.Plan.Get(ctx, &wanted)...)
	if response.Diagnostics.HasError() {
		return
	}
	if err := wanted.change(ctx, "create", func() error {
		name := make([]byte, 8)
		if _, err := rand.Read(name); err != nil {
			return err
		}
		wanted.ID = types.StringValue(filepath.Join(wanted.Directory.ValueString(), hex.EncodeToString(name)))
		return wanted.write(os.O_CREATE | os.O_EXCL)
	}); err != nil {
		response.Diagnostics.AddError("cannot create the file", err.Error())
	}
	if !wanted.ID.IsUnknown() { // it exists, even if the wait after that was interrupted
		response.Diagnostics.Append(response.State.Set(ctx, &wanted)...)
	}
}

func (*file) Read(ctx context.Context, request resource.ReadRequest, response *resource.ReadResponse) {
	var known fileModel
	response.Diagnostics.Append(request.State.Get(ctx, &known)...)
	if response.Diagnostics.HasError() {
		return
	}
	if known.Fail.ValueString() == "read" {
		response.Diagnostics.AddError("cannot read the file", "the configuration says so (fail)")
		return
	}
	content, err := os.ReadFile(known.ID.ValueString())
	if errors.Is(err, fs.ErrNotExist) {
		response.State.RemoveResource(ctx)
		return
	}
	var found stored
	if err == nil {
		err = json.Unmarshal(content, &found)
	}
	if err != nil {
		response.Diagnostics.AddError("cannot read the file", err.Error())
		return
	}
	known.Directory = types.StringValue(filepath.Dir(known.ID.ValueString()))
	known.Name = types.StringValue(found.Name)
	known.Content = optional(known.Content, found.Content)
	known.Secret = optional(known.Secret, found.Secret)
	response.Diagnostics.Append(response.State.Set(ctx, &known)...)
}

func (*file) Update(ctx context.Context, request resource.UpdateRequest, response *resource.UpdateResponse) {
	var wanted fileModel
	response.Diagnostics.Append(request.Plan.Get(ctx, &wanted)...)
	if response.Diagnostics.HasError() {
		return
	}
	if err := wanted.change(ctx, "update", func() error { return wanted.write(os.O_TRUNC) }); err != nil {
		response.Diagnostics.AddError("cannot update the file", err.Error())
		return
	}
	response.Diagnostics.Append(response.State.Set(ctx, &wanted)...)
}

func (*file) Delete(ctx context.Context, request resource.DeleteRequest, response *resource.DeleteResponse) {
	var known fileModel
	response.Diagnostics.Append(request.State.Get(ctx, &known)...)
	if response.Diagnostics.HasError() {
		return
	}
	err := known.change(ctx, "delete", func() error { return os.Remove(known.ID.ValueString()) })
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		response.Diagnostics.AddError("cannot delete the file", err.Error())
	}
}

func (*file) ImportState(ctx context.Context, request resource.ImportStateRequest, response *resource.ImportStateResponse) {
	if _, err := os.Stat(request.ID); err != nil {
		response.Diagnostics.AddError("cannot import the file", err.Error())
		return
	}
	resource.ImportStatePassthroughID(ctx, path.Root("id"), request, response)
}

// change makes one change, after the waits that the configuration asks for. It fails if the configuration says so, and if the
// engine is interrupted during a wait.
func (m *fileModel) change(ctx context.Context, operation string, do func() error) error {
	if err := pause(ctx, m.DelaySeconds.ValueFloat64()); err != nil {
		return err
	}
	for m.WaitFor.ValueString() != "" {
		if _, err := os.Stat(m.WaitFor.ValueString()); err == nil {
			break
		}
		if err := pause(ctx, 0.01); err != nil {
			return err
		}
	}
	if m.Fail.ValueString() == operation {
		return errors.New("the configuration says so (fail)")
	}
	if err := do(); err != nil {
		return err
	}
	return pause(ctx, m.DelayAfterSeconds.ValueFloat64())
}

func (m *fileModel) write(flags int) error {
	content, err := json.Marshal(stored{m.Name.ValueString(), m.Content.ValueString(), m.Secret.ValueString()})
	if err != nil {
		return err
	}
	out, err := os.OpenFile(m.ID.ValueString(), os.O_WRONLY|flags, 0o600)
	if err != nil {
		return err
	}
	_, err = out.Write(content)
	return errors.Join(err, out.Close())
}

func pause(ctx context.Context, seconds float64) error {
	select {
	case <-time.After(time.Duration(seconds * float64(time.Second))):
		return nil
	case <-ctx.Done():
		return fmt.Errorf("interrupted: %w", ctx.Err())
	}
}

// optional keeps an attribute null that the configuration does not set.
func optional(known types.String, found string) types.String {
	if known.IsNull() && found == "" {
		return known
	}
	return types.StringValue(found)
}
