import Model

/// Project number → a small slot, by open addressing: one multiplication and usually one look.
struct ProjectTable: Sendable {
    /// Project number in the low half, slot + 1 in the high half, so that 0 is a free cell.
    /// Invariant: the number of cells is a power of two, and at least half of the cells are free.
    private var cells: [UInt64]
    private(set) var count = 0

    init() { cells = Array(repeating: 0, count: 16) }

    @inline(__always)
    private func start(_ project: ProjectNumber) -> Int {
        let mixed = UInt64(project.rawValue) &* 0x9e37_79b9_7f4a_7c15
        return Int(truncatingIfNeeded: mixed >> 32) & (cells.count - 1)
    }

    @inline(__always)
    func slot(of project: ProjectNumber) -> Int? {
        var cell = start(project)
        while true {
            let found = cells[cell]
            if found == 0 { return nil }
            if UInt32(truncatingIfNeeded: found) == project.rawValue { return Int(found >> 32) - 1 }
            cell = (cell + 1) & (cells.count - 1)
        }
    }

    /// The project must not be in the table.
    mutating func insert(_ project: ProjectNumber, at slot: Int) {
        precondition(self.slot(of: project) == nil, "a project has one slot")
        if count * 2 >= cells.count {
            let old = cells
            cells = Array(repeating: 0, count: old.count * 2)
            for cell in old where cell != 0 { put(cell) }
        }
        count += 1
        put(UInt64(slot + 1) << 32 | UInt64(project.rawValue))
    }

    private mutating func put(_ value: UInt64) {
        var cell = start(ProjectNumber(UInt32(truncatingIfNeeded: value) & (ProjectNumber.limit - 1)))
        while cells[cell] != 0 { cell = (cell + 1) & (cells.count - 1) }
        cells[cell] = value
    }

    mutating func remove(_ project: ProjectNumber) {
        var gap = start(project)
        while UInt32(truncatingIfNeeded: cells[gap]) != project.rawValue || cells[gap] == 0 {
            if cells[gap] == 0 { return }
            gap = (gap + 1) & (cells.count - 1)
        }
        count -= 1
        cells[gap] = 0
        // The entries behind the gap move up, because a search stops at the first free cell.
        var cell = (gap + 1) & (cells.count - 1)
        while cells[cell] != 0 {
            let value = cells[cell]
            cells[cell] = 0
            put(value)
            cell = (cell + 1) & (cells.count - 1)
        }
    }
}
