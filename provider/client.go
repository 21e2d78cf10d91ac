package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

const (
	prefix           = "/api/v1"
	maxTries         = 6
	firstDelay       = 500 * time.Millisecond
	maxDelay         = 30 * time.Second
	requestTimeout   = 60 * time.Second
	maxAnswerBytes   = 64 << 20
	organizationName = "Terracrew-Organization"
	problemType      = "application/problem+json"
	jobAdvice        = "This is the token of a Terracrew job, which can only read the job's own module. " +
		"Give the provider a token of a service account that may do this."
)

// client makes requests to a server.
type client struct {
	endpoint     string
	token        string
	organization string
	http         *http.Client
	// isJob says that the token is that of a Terracrew job.
	isJob bool
}

// problem is an answer of the server that refuses a request (RFC 9457).
type problem struct {
	Status int    `json:"status"`
	Code   string `json:"code"`
	Detail string `json:"detail"`
	Field  string `json:"field"`
	Hint   string `json:"hint"`
}

func (p *problem) Error() string {
	return strings.TrimSpace(p.Detail + "\n" + p.Hint)
}

func isNotFound(err error) bool {
	var refused *problem
	return errors.As(err, &refused) && refused.Status == http.StatusNotFound
}

func newClient(endpoint, token, organization string) (*client, error) {
	address, err := url.Parse(endpoint)
	if err != nil || address.Host == "" || (address.Scheme != "http" && address.Scheme != "https") {
		return nil, fmt.Errorf("%q is not the address of a server: expected http(s)://host[:port]", endpoint)
	}
	// A redirect is not followed, so that the token is sent to no other server.
	stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &client{
		endpoint:     strings.TrimSuffix(strings.TrimSuffix(endpoint, "/"), prefix),
		token:        strings.TrimSpace(token),
		organization: organization,
		http:         &http.Client{Timeout: requestTimeout, CheckRedirect: stay},
	}, nil
}

// call makes a request and returns the answer's object, or nil if it has no body.
//
// A request is repeated when the server asks for that. A repeated POST makes nothing twice, because whatever the provider
// creates has a name or a place that exists once.
func (c *client) call(ctx context.Context, method, path string, body any) (map[string]any, error) {
	var sent []byte
	if body != nil {
		var err error
		if sent, err = json.Marshal(body); err != nil {
			return nil, err
		}
	}
	delay := firstDelay
	for try := 1; ; try++ {
		answer, wait, err := c.try(ctx, method, path, sent)
		if err == nil || wait < 0 || try == maxTries {
			return answer, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(min(max(delay, wait), maxDelay)):
		}
		delay *= 2
	}
}

// try makes a request once. A wait of zero or more seconds after an error says that the request may be repeated after it.
func (c *client) try(ctx context.Context, method, path string, sent []byte) (map[string]any, time.Duration, error) {
	request, err := http.NewRequestWithContext(ctx, method, c.endpoint+prefix+path, bytes.NewReader(sent))
	if err != nil {
		return nil, -1, err
	}
	request.Header.Set("Authorization", "Bearer "+c.token)
	request.Header.Set("User-Agent", "terraform-provider-terracrew/"+version)
	if sent != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	if c.organization != "" {
		request.Header.Set(organizationName, c.organization)
	}
	response, err := c.http.Do(request)
	if err != nil {
		return nil, waitAfter(ctx, method, err), fmt.Errorf("%s does not answer: %w", c.endpoint, err)
	}
	defer response.Body.Close()
	content, err := io.ReadAll(io.LimitReader(response.Body, maxAnswerBytes))
	if err != nil {
		return nil, waitAfter(ctx, method, err), fmt.Errorf("the answer of %s broke off: %w", c.endpoint, err)
	}
	if response.StatusCode >= http.StatusMultipleChoices {
		return nil, waitAsked(response), c.refusal(response, content)
	}
	if len(content) == 0 {
		return nil, -1, nil
	}
	var answer map[string]any
	decoder := json.NewDecoder(bytes.NewReader(content))
	decoder.UseNumber()
	if err := decoder.Decode(&answer); err != nil {
		return nil, -1, fmt.Errorf("%s gave an answer that is not JSON: is it a Terracrew server? %w", c.endpoint, err)
	}
	return answer, -1, nil
}

// waitAfter returns whether a request without an answer may be repeated: if it has not reached the server, or changes nothing
// when it is repeated.
func waitAfter(ctx context.Context, method string, err error) time.Duration {
	var operation *net.OpError
	isUnsent := errors.As(err, &operation) && operation.Op == "dial"
	if ctx.Err() == nil && (isUnsent || method != http.MethodPost) {
		return 0
	}
	return -1
}

// waitAsked returns how long the server asks to wait before the request is repeated; less than zero if it does not ask for that.
func waitAsked(response *http.Response) time.Duration {
	if response.StatusCode != http.StatusTooManyRequests && response.StatusCode != http.StatusServiceUnavailable {
		return -1
	}
	seconds, err := strconv.Atoi(response.Header.Get("Retry-After"))
	if err != nil {
		seconds = 0
	}
	return time.Duration(seconds) * time.Second
}

func (c *client) refusal(response *http.Response, content []byte) error {
	found := &problem{}
	if !strings.HasPrefix(response.Header.Get("Content-Type"), problemType) || json.Unmarshal(content, found) != nil {
		return fmt.Errorf("%s %s was answered %s by something that is not a Terracrew server: a proxy, a firewall or "+
			"another program at that address", response.Request.Method, response.Request.URL.Redacted(), response.Status)
	}
	if c.isJob && (response.StatusCode == http.StatusForbidden || response.StatusCode == http.StatusNotFound) {
		found.Hint = strings.TrimSpace(found.Hint + "\n" + jobAdvice)
	}
	return found
}

// search returns the first item of a list for which the predicate holds; nil if there is none.
func (c *client) search(ctx context.Context, path string, query url.Values, is func(map[string]any) bool) (map[string]any, error) {
	for {
		page, err := c.call(ctx, http.MethodGet, path+"?"+query.Encode(), nil)
		if err != nil {
			return nil, err
		}
		items, _ := page["items"].([]any)
		for _, each := range items {
			if item, ok := each.(map[string]any); ok && is(item) {
				return item, nil
			}
		}
		next, _ := page["next"].(string)
		if next == "" {
			return nil, nil
		}
		query.Set("after", next)
	}
}
