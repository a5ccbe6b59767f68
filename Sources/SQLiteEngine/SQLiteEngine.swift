// SQLiteEngine
