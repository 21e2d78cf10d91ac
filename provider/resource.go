package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
)

// noun is one kind of resource. A function that is nil does what the API does for most of them: one is found at its id, below
// the collection that it was created in.
type noun struct {
	name        string
	title       string
	description string
	collection  string
	fields      []field
	// key has the attributes that an id consists of, with colons between them; without any, the server gives an id.
	key []string
	// movable is an attribute that is fixed for the usual request, and that move changes.
	movable string
	move    func(ctx context.Context, c *client, id, to string) error
	create  func(ctx context.Context, c *client, body map[string]any) (map[string]any, error)
	// find returns what the server has for the attributes of a resource; nil if it has none.
	find   func(ctx context.Context, c *client, stored values) (map[string]any, error)
	change func(ctx context.Context, c *client, stored values, body map[string]any) (map[string]any, error)
	remove func(ctx context.Context, c *client, stored values) error
}

func (n noun) item(id string) string { return n.collection + "/" + url.PathEscape(id) }

// described is a resource of one noun.
type described struct {
	noun
	client *client
}

func (r *described) Metadata(_ context.Context, request resource.MetadataRequest, response *resource.MetadataResponse) {
	response.TypeName = request.ProviderTypeName + "_" + r.name
}

func (r *described) Schema(_ context.Context, _ resource.SchemaRequest, response *resource.SchemaResponse) {
	response.Schema = schema.Schema{MarkdownDescription: r.description, Attributes: attributes(r.fields)}
}

func (r *described) Configure(_ context.Context, request resource.ConfigureRequest, _ *resource.ConfigureResponse) {
	r.client, _ = request.ProviderData.(*client)
}

// ModifyPlan replaces a resource when an attribute that the API cannot change is another one, and keeps its id otherwise.
func (r *described) ModifyPlan(_ context.Context, request resource.ModifyPlanRequest, response *resource.ModifyPlanResponse) {
	if request.Plan.Raw.IsNull() || request.State.Raw.IsNull() {
		return
	}
	stored, planned := valuesOf(request.State.Raw), valuesOf(request.Plan.Raw)
	for _, each := range r.fields {
		if each.isFixed() && each.Name != r.movable && !planned[each.Name].Equal(stored[each.Name]) {
			response.RequiresReplace = append(response.RequiresReplace, path.Root(each.Name))
		}
	}
	if len(response.RequiresReplace) == 0 {
		planned["id"] = stored["id"]
		response.Plan.Raw = tftypes.NewValue(request.Plan.Raw.Type(), map[string]tftypes.Value(planned))
	}
}

func (r *described) Create(ctx context.Context, request resource.CreateRequest, response *resource.CreateResponse) {
	planned, config := valuesOf(request.Plan.Raw), valuesOf(request.Config.Raw)
	body := map[string]any{}
	for _, each := range r.fields {
		if each.InNew {
			if given := each.encode(each.given(planned, config)); given != nil {
				body[each.Name] = given
			}
		}
	}
	answer, err := r.create(ctx, r.client, body)
	if err != nil {
		r.refuse(&response.Diagnostics, "created", err)
		return
	}
	made := r.completed(planned, answer)
	later := map[string]any{}
	for _, each := range r.fields {
		if wanted := each.encode(planned[each.Name]); each.InChange && !each.InNew && !isSame(wanted, answer[each.Name]) {
			later[each.Name] = wanted
		}
	}
	if len(later) > 0 {
		if _, err := r.change(ctx, r.client, made, later); err != nil {
			r.refuse(&response.Diagnostics, "given all of its settings", err)
		}
	}
	response.State.Raw = tftypes.NewValue(request.Plan.Raw.Type(), map[string]tftypes.Value(made))
}

func (r *described) Read(ctx context.Context, request resource.ReadRequest, response *resource.ReadResponse) {
	stored := valuesOf(request.State.Raw)
	answer, err := r.find(ctx, r.client, stored)
	if answer == nil && (err == nil || isNotFound(err)) {
		response.State.RemoveResource(ctx)
		return
	}
	if err != nil {
		r.refuse(&response.Diagnostics, "read", err)
		return
	}
	found := values{}
	for _, each := range r.fields {
		found[each.Name] = each.read(stored[each.Name], answer, each.isFixed() && each.Name != r.movable)
	}
	response.State.Raw = tftypes.NewValue(request.State.Raw.Type(), map[string]tftypes.Value(r.identified(found)))
}

func (r *described) Update(ctx context.Context, request resource.UpdateRequest, response *resource.UpdateResponse) {
	stored, planned, config := valuesOf(request.State.Raw), valuesOf(request.Plan.Raw), valuesOf(request.Config.Raw)
	id := stored.text("id")
	if to := planned.text(r.movable); r.movable != "" && to != stored.text(r.movable) {
		if err := r.move(ctx, r.client, id, to); err != nil {
			r.refuse(&response.Diagnostics, "moved", err)
			return
		}
	}
	body := map[string]any{}
	for _, each := range r.fields {
		if each.InChange && (each.WriteOnly || !planned[each.Name].Equal(stored[each.Name])) {
			body[each.Name] = each.encodeChange(stored[each.Name], each.given(planned, config))
		}
	}
	answer, err := r.change(ctx, r.client, planned, body)
	if err != nil {
		r.refuse(&response.Diagnostics, "changed", err)
		return
	}
	response.State.Raw = tftypes.NewValue(request.Plan.Raw.Type(), map[string]tftypes.Value(r.completed(planned, answer)))
}

func (r *described) Delete(ctx context.Context, request resource.DeleteRequest, response *resource.DeleteResponse) {
	if err := r.remove(ctx, r.client, valuesOf(request.State.Raw)); err != nil && !isNotFound(err) {
		r.refuse(&response.Diagnostics, "deleted", err)
	}
}

func (r *described) ImportState(_ context.Context, request resource.ImportStateRequest, response *resource.ImportStateResponse) {
	found := valuesOf(response.State.Raw)
	for _, each := range r.fields {
		found[each.Name] = tftypes.NewValue(each.valueType(), nil)
	}
	found["id"] = tftypes.NewValue(tftypes.String, request.ID)
	parts := strings.SplitN(request.ID, ":", len(r.key))
	if len(parts) != len(r.key) {
		response.Diagnostics.AddError("This is not the id of a "+r.title,
			fmt.Sprintf("%q is not like `%s`.", request.ID, strings.ToUpper(strings.Join(r.key, ":"))))
		return
	}
	for index, name := range r.key {
		found[name] = tftypes.NewValue(tftypes.String, parts[index])
	}
	response.State.Raw = tftypes.NewValue(response.State.Raw.Type(), map[string]tftypes.Value(found))
}

// given returns the value that a person has set. What is write-only is in the configuration alone.
func (f field) given(planned, config values) tftypes.Value {
	if f.WriteOnly {
		return config[f.Name]
	}
	return planned[f.Name]
}

// read returns the value of a field by an answer. One that cannot change is kept, because a person may have named it otherwise
// than the server does: by an id instead of a path, for example.
func (f field) read(stored tftypes.Value, answer map[string]any, isFixed bool) tftypes.Value {
	if f.WriteOnly || (isFixed && !stored.IsNull()) {
		return stored
	}
	names := f.ReadFrom
	if names == nil {
		names = []string{f.Name}
	}
	for _, each := range names {
		if f.ReadFrom != nil && isSame(toJSON(stored), member(answer, each)) {
			return stored
		}
	}
	return f.decode(member(answer, names[0]))
}

// completed returns what was planned, with what only the server knows.
func (r *described) completed(planned values, answer map[string]any) values {
	found := values{}
	for _, each := range r.fields {
		found[each.Name] = planned[each.Name]
		if !found[each.Name].IsKnown() {
			found[each.Name] = each.decode(member(answer, each.Name))
		}
	}
	return r.identified(found)
}

// identified adds the id where the server gives none.
func (r *described) identified(found values) values {
	if r.key != nil {
		parts := []string{}
		for _, each := range r.key {
			parts = append(parts, found.text(each))
		}
		found["id"] = tftypes.NewValue(tftypes.String, strings.Join(parts, ":"))
	}
	return found
}

// refuse reports an error at the attribute that it is about, if it is about one.
func (r *described) refuse(diagnostics *diag.Diagnostics, what string, err error) {
	summary := fmt.Sprintf("The %s was not %s", r.title, what)
	var refused *problem
	if errors.As(err, &refused) {
		for _, each := range r.fields {
			if each.isGiven() && each.Name == strings.Split(refused.Field, ".")[0] {
				diagnostics.AddAttributeError(path.Root(each.Name), summary, err.Error())
				return
			}
		}
	}
	diagnostics.AddError(summary, err.Error())
}

// withDefaults returns a noun that does what the API does for most of them where it says nothing else.
func (n noun) withDefaults() noun {
	if n.create == nil {
		n.create = func(ctx context.Context, c *client, body map[string]any) (map[string]any, error) {
			return c.call(ctx, http.MethodPost, n.collection, body)
		}
	}
	if n.find == nil {
		n.find = func(ctx context.Context, c *client, stored values) (map[string]any, error) {
			return c.call(ctx, http.MethodGet, n.item(stored.text("id")), nil)
		}
	}
	if n.change == nil {
		n.change = func(ctx context.Context, c *client, stored values, body map[string]any) (map[string]any, error) {
			return c.call(ctx, http.MethodPatch, n.item(stored.text("id")), body)
		}
	}
	if n.remove == nil {
		n.remove = func(ctx context.Context, c *client, stored values) error {
			_, err := c.call(ctx, http.MethodDelete, n.item(stored.text("id")), nil)
			return err
		}
	}
	return n
}
