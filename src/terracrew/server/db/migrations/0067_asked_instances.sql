-- Every server looks for instances that have to answer a question each second, and almost always there are none.
CREATE INDEX instances_asked ON instances (id) WHERE asked_at IS NOT NULL;
