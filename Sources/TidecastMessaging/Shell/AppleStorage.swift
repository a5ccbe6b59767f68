#if canImport(Security) && canImport(Darwin)
    import Foundation
    import Security

    /// The registration in the keychain, the rest in the app's defaults. The keychain outlives the app: after
    /// a new installation of the app the defaults are empty, and the state then names no registration, so
    /// that the machine begins with the wishes of the new app.
    struct AppleStorage: Storage {
        /// The server and the project: a client of another one has entries of its own.
        var account: String

        private static let service = "tidecast.messaging"
        private var key: String { "tidecast.messaging.\(account)" }

        func load() throws -> (state: ClientState, registration: Registration?) {
            var state = ClientState()
            if let data = UserDefaults.standard.data(forKey: key) {
                do {
                    state = try JSONDecoder().decode(ClientState.self, from: data)
                } catch {
                    throw MessagingError(
                        .storage, "The entry \(key) of the defaults cannot be read: \(error)")
                }
            }
            return (state, try loadRegistration())
        }

        func store(_ state: ClientState, isUrgent: Bool) throws {
            UserDefaults.standard.set(try JSONEncoder().encode(state), forKey: key)
        }

        func store(_ registration: Registration?) throws {
            let deleted = SecItemDelete(item as CFDictionary)
            guard deleted == errSecSuccess || deleted == errSecItemNotFound else {
                throw MessagingError(.storage, "The keychain answers \(deleted).")
            }
            guard let registration else { return }
            var added = item
            added[kSecValueData as String] = try JSONEncoder().encode(registration)
            // A message may come while the device is locked. The registration must not go to another device.
            added[kSecAttrAccessible as String] = kSecAttrAccessibleAfterFirstUnlockThisDeviceOnly
            let status = SecItemAdd(added as CFDictionary, nil)
            guard status == errSecSuccess else {
                throw MessagingError(.storage, "The keychain answers \(status).")
            }
        }

        private var item: [String: Any] {
            [
                kSecClass as String: kSecClassGenericPassword,
                kSecAttrService as String: AppleStorage.service, kSecAttrAccount as String: account,
            ]
        }

        private func loadRegistration() throws -> Registration? {
            var query = item
            query[kSecReturnData as String] = true
            var found: CFTypeRef?
            let status = SecItemCopyMatching(query as CFDictionary, &found)
            if status == errSecItemNotFound { return nil }
            guard status == errSecSuccess, let data = found as? Data else {
                throw MessagingError(.storage, "The keychain answers \(status).")
            }
            return try JSONDecoder().decode(Registration.self, from: data)
        }
    }
#endif
