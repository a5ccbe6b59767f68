/// Values for a bounded number of keys: the key that has been in the table longest leaves first.
struct NewestTable<Key: Hashable, Value> {
    private var entries: [Key: Value] = [:]
    /// Keys in the order in which they came; `next` is overwritten next once the table is full.
    var order: [Key] = []
    private var next = 0

    var count: Int { entries.count }
    subscript(key: Key) -> Value? { entries[key] }

    /// Changes the value in place; begins with `initial` if there is none.
    mutating func update(
        _ key: Key, default initial: @autoclosure () -> Value, keysMax: Int, _ body: (inout Value) -> Void
    ) {
        guard keysMax > 0 else { return }
        body(&entries[key, default: initial()])
        guard entries.count > order.count else { return }
        guard order.count >= keysMax else { return order.append(key) }
        entries[order[next]] = nil
        order[next] = key
        next = (next + 1) % order.count
    }

    /// Takes time in proportion to the table if the key is in it.
    mutating func remove(_ key: Key) {
        guard entries.removeValue(forKey: key) != nil else { return }
        order = (order[next...] + order[..<next]).filter { $0 != key }
        next = 0
    }

    mutating func keep(where isKept: (Key) -> Bool) {
        guard entries.keys.contains(where: { !isKept($0) }) else { return }
        order = (order[next...] + order[..<next]).filter(isKept)
        entries = entries.filter { isKept($0.key) }
        next = 0
    }

    /// Whether every key is once in the order, as always.
    var isInOrder: Bool { Set(order) == Set(entries.keys) && order.count == entries.count }
}
