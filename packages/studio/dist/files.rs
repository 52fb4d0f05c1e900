// Written by `npm run build` in packages/studio.
[
    ("index-fblltp5d.css", include_bytes!("index-fblltp5d.css").as_slice()),
    ("logo-KQFvU7Ez.svg", include_bytes!("logo-KQFvU7Ez.svg").as_slice()),
    ("studio-CDlSHBXa.js", include_bytes!("studio-CDlSHBXa.js").as_slice()),
]
