"""What Alembic runs the steps with: the connection that `Database.migrate` has opened, in its transaction."""

from alembic import context

context.configure(connection=context.config.attributes["connection"], transactional_ddl=True)
with context.begin_transaction():
    context.run_migrations()
