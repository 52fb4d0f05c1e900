// Written by `npm run build` in packages/studio.
[
    ("index-fblltp5d.css", include_bytes!("index-fblltp5d.css").as_slice()),
    ("logo-KQFvU7Ez.svg", include_bytes!("logo-KQFvU7Ez.svg").as_slice()),
    ("studio-Cv_MYXtk.js", include_bytes!("studio-Cv_MYXtk.js").as_slice()),
]
