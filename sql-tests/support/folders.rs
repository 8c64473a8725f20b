//! Copies of folders.

/// Copies a folder and all that is in it.
pub fn copy_folder(from: &std::path::Path, to: &std::path::Path) -> std::io::Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let to = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_folder(&entry.path(), &to)?
        } else {
            std::fs::copy(entry.path(), to)?;
        }
    }
    Ok(())
}
