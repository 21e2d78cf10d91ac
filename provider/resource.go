package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
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
	description string
	collection  string
	fields      []field
	// key has the attributes that an id consists of, with colons between them; without any, the server gives an id.
	key []string
	// movable is an attribute that the usual request does not change, but move does.
	movable string
	move    func(ctx context.Context, c *client, id, to string) error
	// create makes a resource. Its body has all that a person has set.
	create func(ctx context.Context, c *client, body map[string]any) (map[string]any, error)
	// find returns what the server has for the attributes of a resource; nil if it has none, and errUnchanged if nothing is new.
	find func(ctx context.Context, c *client, stored values) (map[string]any, error)
	// change makes a resource what is planned. Its body has what is different.
	change func(ctx context.Context, c *client, stored values, body map[string]any) (map[string]any, error)
	// replaces says that the request that creates a resource also changes it, so that it needs all that a person has set.
	replaces bool
	remove   func(ctx context.Context, c *client, stored values) error
}

// title is its name in a sentence.
func (n noun) title() string { return strings.ReplaceAll(n.name, "_", " ") }

func (n noun) item(id string) string { return n.collection + "/" + url.PathEscape(id) }

// errUnchanged says that the server has what the state has.
var errUnchanged = errors.New("unchanged")

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

// ModifyPlan replaces a resource when an attribute that the API cannot change is another one. Otherwise the resource keeps what
// the server has made for it, such as its id.
func (r *described) ModifyPlan(ctx context.Context, request resource.ModifyPlanRequest, response *resource.ModifyPlanResponse) {
	if request.Plan.Raw.IsNull() || request.State.Raw.IsNull() {
		return
	}
	stored, planned, config := valuesOf(request.State.Raw), valuesOf(request.Plan.Raw), valuesOf(request.Config.Raw)
	for _, each := range r.fields {
		if each.isFixed() && !planned[each.Name].Equal(stored[each.Name]) && !r.isOtherName(ctx, each, stored, planned[each.Name]) {
			response.RequiresReplace = append(response.RequiresReplace, path.Root(each.Name))
		}
	}
	if len(response.RequiresReplace) == 0 {
		for _, each := range r.fields {
			if !planned[each.Name].IsKnown() && config[each.Name].IsNull() && !each.Varies {
				planned[each.Name] = stored[each.Name]
			}
		}
		response.Plan.Raw = tftypes.NewValue(request.Plan.Raw.Type(), map[string]tftypes.Value(planned))
	}
}

// isOtherName says whether a value names the same as the one that is stored, such as an id instead of a path.
func (r *described) isOtherName(ctx context.Context, f field, stored values, planned tftypes.Value) bool {
	if f.ReadFrom == nil || !planned.IsKnown() {
		return false
	}
	answer, err := r.find(ctx, r.client, stored)
	return err == nil && f.isNamedBy(answer, planned)
}

func (r *described) Create(ctx context.Context, request resource.CreateRequest, response *resource.CreateResponse) {
	planned, config := valuesOf(request.Plan.Raw), valuesOf(request.Config.Raw)
	if r.replaces { // so the request would change one that somebody else has made
		found, err := r.find(ctx, r.client, planned)
		if found != nil {
			err = fmt.Errorf("it exists: import it as `%s`, or remove it", r.identified(planned).text("id"))
		}
		if err != nil {
			r.refuse(&response.Diagnostics, "created", err)
			return
		}
	}
	answer, err := r.create(ctx, r.client, r.whole(planned, config))
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
	if errors.Is(err, errUnchanged) {
		return
	}
	if answer == nil && (err == nil || isNotFound(err)) {
		if r.client.isJob { // it may exist all the same
			response.Diagnostics.AddError(fmt.Sprintf("The %s cannot be seen", r.title()), jobAdvice)
			return
		}
		response.State.RemoveResource(ctx)
		return
	}
	if err != nil {
		r.refuse(&response.Diagnostics, "read", err)
		return
	}
	found := values{}
	for _, each := range r.fields {
		found[each.Name] = each.read(stored[each.Name], answer)
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
	answer, err := r.update(ctx, stored, planned, config)
	if err != nil {
		r.refuse(&response.Diagnostics, "changed", err)
		return
	}
	response.State.Raw = tftypes.NewValue(request.Plan.Raw.Type(), map[string]tftypes.Value(r.completed(planned, answer)))
}

func (r *described) update(ctx context.Context, stored, planned, config values) (map[string]any, error) {
	if r.replaces {
		return r.create(ctx, r.client, r.whole(planned, config))
	}
	body := map[string]any{}
	for _, each := range r.fields {
		if each.InChange && each.Name != r.movable && !planned[each.Name].Equal(stored[each.Name]) {
			body[each.Name] = each.encodeChange(stored[each.Name], planned[each.Name])
		}
	}
	if len(body) == 0 {
		return nil, nil // it was moved, or is named otherwise
	}
	return r.change(ctx, r.client, planned, body)
}

// whole returns the body of a request that creates a resource.
func (r *described) whole(planned, config values) map[string]any {
	body := map[string]any{}
	for _, each := range r.fields {
		value := planned[each.Name]
		if each.WriteOnly {
			value = config[each.Name]
		}
		if given := each.encode(value); each.InNew && given != nil {
			body[each.Name] = given
		}
	}
	return body
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
		response.Diagnostics.AddError("This is not the id of a "+r.title(),
			fmt.Sprintf("%q is not like `%s`.", request.ID, strings.ToUpper(strings.Join(r.key, ":"))))
		return
	}
	for index, name := range r.key {
		found[name] = tftypes.NewValue(tftypes.String, parts[index])
	}
	response.State.Raw = tftypes.NewValue(response.State.Raw.Type(), map[string]tftypes.Value(found))
}

// read returns the value of a field by an answer. One that cannot change is kept, because a person may have named it otherwise
// than the server does: by an id instead of a path, for example.
func (f field) read(stored tftypes.Value, answer map[string]any) tftypes.Value {
	if f.isFixed() && !stored.IsNull() {
		return stored
	}
	if f.isNamedBy(answer, stored) {
		return stored
	}
	name := f.Name
	if f.ReadFrom != nil {
		name = f.ReadFrom[0]
	}
	found := f.decode(member(answer, name))
	if f.Required && f.Kind == text && toJSON(found) == "" {
		return tftypes.NewValue(tftypes.String, "/") // where a place is needed, this is the organization
	}
	return found
}

// isNamedBy says whether a value is one of those that an answer has for the field.
func (f field) isNamedBy(answer map[string]any, value tftypes.Value) bool {
	given, ok := toJSON(value).(string)
	return ok && slices.ContainsFunc(f.ReadFrom, func(each string) bool {
		found, ok := member(answer, each).(string)
		return ok && strings.Trim(found, "/") == strings.Trim(given, "/")
	})
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
	summary := fmt.Sprintf("The %s was not %s", r.title(), what)
	var refused *problem
	if errors.As(err, &refused) {
		name, _, _ := strings.Cut(strings.ReplaceAll(refused.Field, "[", "."), ".")
		for _, each := range r.fields {
			if each.isGiven() && each.Name == name {
				diagnostics.AddAttributeError(path.Root(each.Name), summary, err.Error())
				return
			}
		}
	}
	diagnostics.AddError(summary, err.Error())
}

// withDefaults returns a noun that does what the API does for most of them where it says nothing else.
func (n noun) withDefaults() noun {
	if n.key != nil {
		words := "`" + strings.ToUpper(strings.Join(n.key, ":")) + "`."
		n.fields = append(n.fields[:len(n.fields):len(n.fields)], field{Name: "id", Kind: text, Description: words})
	}
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
