import Foundation
import Testing

@testable import TidecastMessaging

@Suite("The files of a client") struct FileStorageTests {
    /// A folder of its own, which goes away at the end of the test.
    final class Folder {
        let url = FileManager.default.temporaryDirectory.appendingPathComponent(UUID().uuidString)
        deinit { try? FileManager.default.removeItem(at: url) }
    }

    static func mode(_ url: URL) throws -> Int {
        let attributes = try FileManager.default.attributesOfItem(atPath: url.path)
        return try #require(attributes[.posixPermissions] as? NSNumber).intValue
    }

    @Test("are in a folder for the program, the server and the project, unless the app names one")
    func places() throws {
        let options = try MessagingOptions(server: "https://push.example.com:8443/a/b", project: "demo")
        let base = try #require(
            FileManager.default.urls(for: .applicationSupportDirectory, in: .userDomainMask).first)
        let program = base.appendingPathComponent(ProcessInfo.processInfo.processName)
        let name = "tidecast-push.example.com-8443-a-b-demo"
        #expect(try options.defaultFolder.path == program.appendingPathComponent(name).path)
    }

    @Test("keep state and registration, and only the user may read them")
    func kept() throws {
        let folder = Folder()
        var state = ClientState()
        state.wishes["news"] = .init(isWanted: true, version: 3, confirmed: 2)
        state.position = "e1"
        let all = Registrations(current: MachineWorld.device, ended: [MachineWorld.device2])
        do {
            let storage = try FileStorage(folder: folder.url)
            #expect(try storage.load().state == nil)
            try storage.store(state, isUrgent: true)
            try storage.store(all)
        }
        let storage = try FileStorage(folder: folder.url)
        let found = try storage.load()
        #expect(found.state == state && found.registrations == all)
        for name in ["state.json", "registration.json", "lock"] {
            #expect(try FileStorageTests.mode(folder.url.appendingPathComponent(name)) == 0o600)
        }
        #expect(try FileStorageTests.mode(folder.url) == 0o700)
        try storage.store(Registrations())
        try storage.store(Registrations())
        #expect(try storage.load().registrations == Registrations())
    }

    @Test("belong to one process at a time")
    func locked() throws {
        let folder = Folder()
        let first = try FileStorage(folder: folder.url)
        let error = #expect(throws: MessagingError.self) { try FileStorage(folder: folder.url) }
        #expect(error?.code == .operationInProgress)
        withExtendedLifetime(first) {}
    }

    @Test("that are damaged are an error that names the file", arguments: ["", "{", "[]", "{\"wishes\": 1}"])
    func damaged(text: String) throws {
        let folder = Folder()
        let storage = try FileStorage(folder: folder.url)
        let file = folder.url.appendingPathComponent("state.json")
        try Data(text.utf8).write(to: file)
        let error = #expect(throws: MessagingError.self) { try storage.load() }
        #expect(error?.code == .storage && error?.message.contains(file.path) == true)
    }

    @Test("cannot be where a file is")
    func noFolder() throws {
        let folder = Folder()
        try Data().write(to: folder.url)
        let error = #expect(throws: MessagingError.self) { try FileStorage(folder: folder.url) }
        #expect(error?.code == .storage)
    }
}
