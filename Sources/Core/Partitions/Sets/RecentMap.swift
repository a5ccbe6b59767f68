/// A dictionary for keys that are asked for many times in a row, as the project of most of the traffic or the
/// gateway that sends at the moment. It finds the key of the last change without hashing.
struct RecentMap<Key: Hashable, Value> {
    private var indices: [Key: Int] = [:]
    private var entries: [(key: Key, value: Value)] = []
    private var recent = 0

    var count: Int { entries.count }
    var isEmpty: Bool { entries.isEmpty }

    subscript(key: Key) -> Value? {
        get { index(of: key).map { entries[$0].value } }
        set {
            if let newValue {
                self[key, default: newValue] = newValue
            } else {
                remove(key)
            }
        }
    }

    /// Changes the value in place; begins with `initial` if there is none.
    subscript(key: Key, default initial: @autoclosure () -> Value) -> Value {
        get { self[key] ?? initial() }
        _modify {
            if let index = index(of: key) {
                recent = index
            } else {
                recent = entries.count
                indices[key] = recent
                entries.append((key, initial()))
            }
            yield &entries[recent].value
        }
    }

    /// Changes the value of a known key in place. Takes the key out if `body` returns false.
    mutating func update(_ key: Key, _ body: (inout Value) -> Bool) {
        guard let index = index(of: key) else { return }
        recent = index
        if !body(&entries[index].value) { remove(key) }
    }

    var keys: some Swift.Sequence<Key> { entries.lazy.map(\.key) }
    var values: some Swift.Sequence<Value> { entries.lazy.map(\.value) }

    /// In the order of keys.
    func sorted(by isBefore: (Key, Key) -> Bool) -> [(key: Key, value: Value)] {
        entries.sorted { isBefore($0.key, $1.key) }
    }

    private func index(of key: Key) -> Int? {
        if recent < entries.count, entries[recent].key == key { return recent }
        return indices[key]
    }

    private mutating func remove(_ key: Key) {
        guard let index = indices.removeValue(forKey: key) else { return }
        let last = entries.removeLast()
        guard index < entries.count else { return }
        entries[index] = last
        indices[last.key] = index
    }
}
