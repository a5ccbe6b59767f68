import Model

/// The devices of one partition, in parallel arrays by index.
///
/// Indices are dense and never used twice. Arrays come in pages, so that growing moves nothing and a page
/// whose devices are all gone is freed.
struct DeviceTable: ~Copyable {
    static let pageSize = 1024

    private(set) var pages: [DevicePage?] = []
    /// The index that the next device gets. Invariant: only rises.
    private(set) var next: UInt32 = 0
    /// Devices of each project here.
    private(set) var counts: [UInt32: Int] = [:]
    private(set) var count = 0

    /// The page of a device that is registered, and its slot there.
    @inline(__always)
    func find(_ index: UInt32) -> (page: DevicePage, slot: Int)? {
        let number = Int(index) / DeviceTable.pageSize
        guard number < pages.count, let page = pages[number] else { return nil }
        let slot = Int(index) % DeviceTable.pageSize
        return page.projects[slot] == 0 ? nil : (page, slot)
    }

    /// The project of a device; 0 if there is no such device.
    @inline(__always)
    func project(_ index: UInt32) -> UInt32 {
        let number = Int(index) / DeviceTable.pageSize
        guard number < pages.count, let page = pages[number] else { return 0 }
        return page.projects[Int(index) % DeviceTable.pageSize]
    }

    mutating func add(index: UInt32, project: ProjectNumber, nonce: UInt32, secret: UInt64, seen: Day) {
        let number = Int(index) / DeviceTable.pageSize
        while pages.count <= number { pages.append(nil) }
        let page = pages[number] ?? DevicePage()
        pages[number] = page
        let slot = Int(index) % DeviceTable.pageSize
        precondition(page.projects[slot] == 0, "an index is never used twice")
        page.projects[slot] = project.rawValue
        page.nonces[slot] = nonce
        page.secrets[slot] = secret
        page.seen[slot] = seen.rawValue
        page.used += 1
        next = max(next, index + 1)
        counts[project.rawValue, default: 0] += 1
        count += 1
    }

    /// The caller has already let go of the device's topics and waiting messages.
    mutating func remove(index: UInt32) {
        let number = Int(index) / DeviceTable.pageSize
        guard number < pages.count, let page = pages[number] else { return }
        let slot = Int(index) % DeviceTable.pageSize
        let project = page.projects[slot]
        guard project != 0 else { return }
        page.clear(slot)
        page.used -= 1
        count -= 1
        if let left = counts[project] { counts[project] = left > 1 ? left - 1 : nil }
        if page.used == 0, (number + 1) * DeviceTable.pageSize <= Int(next) { pages[number] = nil }
    }

    /// Raises the next index: to a snapshot's, or past the indices that a new generation leaves out.
    mutating func skip(to index: UInt32) { next = max(next, index) }

    /// Registered devices, ascending from `start`; stops when `body` returns false.
    func forEach(from start: UInt32 = 0, _ body: (UInt32, DevicePage, Int) -> Bool) {
        var number = Int(start) / DeviceTable.pageSize
        var slot = Int(start) % DeviceTable.pageSize
        while number < pages.count {
            if let page = pages[number] {
                while slot < DeviceTable.pageSize {
                    if page.projects[slot] != 0,
                        !body(UInt32(number * DeviceTable.pageSize + slot), page, slot)
                    {
                        return
                    }
                    slot += 1
                }
            }
            number += 1
            slot = 0
        }
    }
}

/// One page of the device table: 37 bytes a device.
final class DevicePage {
    /// 0 if there is no device.
    let projects: UnsafeMutablePointer<UInt32>
    let nonces: UnsafeMutablePointer<UInt32>
    let secrets: UnsafeMutablePointer<UInt64>
    let topics: UnsafeMutablePointer<DeviceTopics>
    let seen: UnsafeMutablePointer<UInt16>
    /// Waiting messages without a collapse key.
    let waiting: UnsafeMutablePointer<UInt16>
    /// Waiting messages with a collapse key, at most 4, each with a different key.
    let collapsible: UnsafeMutablePointer<UInt8>
    var used = 0

    init() {
        func column<T>(_ zero: T) -> UnsafeMutablePointer<T> {
            let column = UnsafeMutablePointer<T>.allocate(capacity: DeviceTable.pageSize)
            column.initialize(repeating: zero, count: DeviceTable.pageSize)
            return column
        }
        projects = column(0)
        nonces = column(0)
        secrets = column(0)
        topics = column(DeviceTopics())
        seen = column(0)
        waiting = column(0)
        collapsible = column(0)
    }

    deinit {
        for slot in 0..<DeviceTable.pageSize { topics[slot].destroy() }
        projects.deallocate()
        nonces.deallocate()
        secrets.deallocate()
        topics.deallocate()
        seen.deallocate()
        waiting.deallocate()
        collapsible.deallocate()
    }

    func clear(_ slot: Int) {
        projects[slot] = 0
        nonces[slot] = 0
        secrets[slot] = 0
        topics[slot].destroy()
        seen[slot] = 0
        waiting[slot] = 0
        collapsible[slot] = 0
    }
}
