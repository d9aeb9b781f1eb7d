"""State database: tables, migrations, repositories, outbox."""
